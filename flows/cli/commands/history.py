"""`gramhouse changes` and `gramhouse explain`: what runs found, and what is known of one item or account."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from os.path import commonprefix
from typing import Annotated

from cyclopts import Parameter
from rich.console import RenderableType

from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.queries.selection import NAMES, as_name, find_accounts
from connectors.warehouse.storage.sql import statements
from flows.cli.options import AccountNames, SnapshotOptions, current_snapshot, number, since_time
from flows.cli.table import fields, listing
from flows.cli.terminal import Answer, clean, row
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.run_request import RunRequest
from flows.config.settings import Settings
from flows.reporting.run_report import Reader
from flows.reporting.words import join, moment
from models.runs import one_line

_SQL = statements(__name__)

# The changes that are listed, and the characters shown of a caption.
_SHOWN, _BEGINNING = 100, 80

# The number of characters shown of a value, and of those before the first difference of two.
_VALUE, _CONTEXT = 60, 15

# What is shown of an account, of changes, and of an account's surfaces.
_ACCOUNT = "status token_expired_since missing_since removed_at"
_CHANGE = "run_seq change ig_username surface media_id columns caption permalink old_ig_username account_id"
_SURFACE = """
surface outcome next_scan next_reason due_at due_reason complete_at recent_at full_due_at error_code resume_after
gap_since
"""


def _difference(old: object, new: object) -> str:
    """Return a value before and after a change side by side; of long texts, the parts around the first difference."""
    texts = ["nothing" if value is None else one_line(str(value)) for value in (old, new)]
    # Long texts that differ at their ends would look the same.
    equal = len(commonprefix(texts))  # noqa: RUF071 - not paths
    start = max(equal - _CONTEXT, 0) if max(map(len, texts)) > _VALUE else 0
    return " → ".join(("…" if start else "") + one_line(text[start:], _VALUE) for text in texts)


def _differences(changed: Mapping[str, Mapping[str, object]]) -> str:
    return ", ".join(f"{name}: {_difference(values['old'], values['new'])}" for name, values in changed.items())


def _describe_changes(found: Record, numbers: Record, *, values: bool) -> Iterator[RenderableType]:
    if not (runs := found["runs"]):
        yield "No such run: `gramhouse runs` lists the last ones."
        return
    seqs = "" if len(runs) == 1 else f"{runs[-1]['seq']} to "
    began = f"(began {moment(runs[-1]['started_at'])} UTC)"
    yield row(f"[bold]Run {seqs}{runs[0]['seq']}[/]", text=f"{began}: {numbers['text']}")
    rows = [*found["account_changes"], *found["changes"]]
    if values:
        for each in rows:
            what = join(" ", (each["ig_username"] or each["account_id"], each.get("surface"), each.get("media_id")))
            yield row(" ", f"{each['change']:<8}", text=join("  ", (what, _differences(each.get("values") or {}))))
    elif rows:
        yield from listing(rows, _CHANGE, prose="columns caption")
    for name, what, total in (
        ("account_changes", "accounts", numbers["of_accounts"]),
        ("changes", "items", numbers["total"]),
    ):
        if (shown := len(found[name])) < total:
            yield f"The first {shown:,} of {total:,} changes of {what}. List all with `--limit {total}`."


def changes(
    *,
    since_run: Annotated[int | None, number()] = None,
    since: Annotated[str | None, Parameter(metavar="TIME")] = None,
    account: AccountNames = None,
    values: bool = False,
    limit: Annotated[int | None, number()] = None,
    options: SnapshotOptions = SnapshotOptions(),
) -> Answer:
    """List what the last run, or the runs since then, found.

    Runs before the last one that were interrupted, or ended but were not published, are listed with it. An item has one
    line for each run and kind of change, and so has an account: new, renamed, token_expired, active, removed, returned.

    Args:
        since_run: Of this run (`seq` in runs) and all later ones.
        since: Of the runs that began since then: 2d, 36h, 90m, or a date (UTC).
        values: Also the values before and after.
        limit: Number of changes to list. Default: 100, or all with --json.
    """
    if since_run is not None and since is not None:
        raise SettingsError("--since-run and --since exclude each other. Fix: use one of them.")
    first = _SQL["unreported"] if since_run is None else f"SELECT {since_run}"
    if since is not None:
        at = since_time("--since", since, SystemClock().now())
        first = _SQL["since"].format(at=at)
    with options.open() as opened:
        reader = Reader(opened, account or ())
        reader.records(f"SET VARIABLE first_run = ({first})")
        reader.set(with_values=values, most=limit or (None if options.as_json else _SHOWN))
        found = {name: reader.records(_SQL[name]) for name in ("runs", "changes", "account_changes")}
        if since_run is not None and not found["runs"]:
            raise SettingsError(f"There is no run {since_run} or later. Fix: `gramhouse runs` lists the last ones.")
        [numbers] = reader.records(_SQL["counts"])
    for each in found["changes"]:
        text = each.pop("values")
        if values:
            each["values"] = json.loads(text or "{}")
    return Answer(found, _describe_changes(found, numbers, values=values))


def _describe_state(item: Record, events: Sequence[Record]) -> str:
    """Return a sentence about whether an item is present, missing or removed, and by which scans."""
    # Scans are those of the last event that has some.
    scans = next((event["scans"] for event in reversed(events) if event.get("scans")), ())
    since = item["removed_at"] or item["missing_since"]
    by = " and ".join(f"the {scan} UTC scan" for scan in scans) or f"the scan that ended {moment(since)} UTC"
    left, expired = (moment(item[name]) for name in ("account_removed_at", "token_expired_since"))
    # Whether the items of an account that left the catalogue still exist is unknown.
    state = item["removal"] or ("missing" if since else "unknown" if left else "present")
    parts = (
        f"{state.capitalize()}: last seen {moment(item['last_seen_at'])} UTC",
        since and f"not listed by {by}",
        left and f"its account left the catalogue {left} UTC",
        expired and f"the token of its account expired {expired} UTC",
    )
    return f"{join('; ', parts)}."


def _read(opened: Snapshot, name: str, *parameters: object) -> list[Record]:
    return opened.query(_SQL[name].format(names=NAMES), parameters)


def _explain_account(opened: Snapshot, account_id: str, settings: Settings) -> Record:
    # Imported here: it imports all that a scan needs, and items have no plan.
    from flows.engine.plan import plan_account

    planned = plan_account(RunRequest(settings), opened, account_id, now=SystemClock().now())
    following = {scan["surface"]: {"next_scan": scan["scan"], "next_reason": scan["reason"]} for scan in planned}
    nothing = {"next_scan": None, "next_reason": None}
    surfaces = [each | following.get(each["surface"], nothing) for each in _read(opened, "surfaces", account_id)]
    [account] = _read(opened, "account", account_id)
    return {"account": account, "surfaces": surfaces, "events": _read(opened, "account_events", account_id)}


def _explain_item(opened: Snapshot, found: Record, *, with_raw: bool) -> Record:
    key = found["account_id"], found["surface"], found["media_id"]
    [item], events = _read(opened, "item", *key), _read(opened, "received", *key) if with_raw else []
    events += [event | {"changes": json.loads(event["changes"] or "{}")} for event in _read(opened, "events", *key)]
    # What was received comes first of what has the same time.
    events.sort(key=itemgetter("at"))
    return {"state": _describe_state(item, events), "item": item, "events": events}


def _describe(explained: Record) -> Iterator[RenderableType]:
    if item := explained.get("item"):
        yield f"[bold]{clean(item['surface'])} {clean(item['media_id'])}[/] of {clean(item['ig_username'] or '?')}"
        shown = item | {"caption": one_line(item.get("caption") or "", _BEGINNING)}
        yield from fields({name: shown.get(name) for name in ("permalink", "caption")} | {"state": explained["state"]})
    else:
        account = explained["account"]
        yield f"[bold]{clean(account['ig_username'])}[/], account {clean(account['account_id'])}"
        yield from fields({name: account[name] for name in _ACCOUNT.split()})
        yield from listing(explained["surfaces"], _SURFACE)
    for event in explained["events"]:
        what = join(" ", (event.get("surface"), event.get("outcome"))) or event["event"].replace("_", " ")
        renamed = event.get("old") and _difference(event["old"], event["new"])
        run, trace = event["run_seq"], event.get("correlation_id")
        ids = join(", ", (run and f"run {run}", trace and f"correlation id {trace}"))
        parts = (what, _differences(event.get("changes") or {}), renamed, event.get("error_code"), ids)
        yield row(" ", f"[dim]{moment(event['at'], seconds=True)}[/]", text=join("; ", parts))
        if "payload" in event:
            yield row(" ", text=event["payload"])


def explain(
    what: Annotated[str, Parameter(metavar="ITEM|ACCOUNT")],
    /,
    *,
    raw: bool = False,
    options: SnapshotOptions = SnapshotOptions(),
) -> Answer:
    """Show what is known of an item or account, in order of time.

    Of scans of an account, those that ended like the one before are left out.

    Args:
        what: Id or permalink of an item; or id, name or public id of an account.
        raw: Also each version of an item as it was received, with its correlation id.
    """
    settings = options.settings()
    with open_snapshot(current_snapshot(settings), with_raw=raw) as opened:
        if not (named := _read(opened, "found", what.strip(), as_name(what))):
            # Raises SelectionError, with a name that is like it.
            find_accounts(opened.db, [what], "item or account")
        found = [
            _explain_account(opened, each["account_id"], settings)
            if each["media_id"] is None
            else _explain_item(opened, each, with_raw=raw)
            for each in named
        ]
    return Answer({"found": found}, chain.from_iterable(map(_describe, found)))
