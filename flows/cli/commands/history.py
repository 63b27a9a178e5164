"""`gramhouse changes` and `gramhouse explain`: what runs found, and what is known of one item or account."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import RenderableType
from rich.table import Table

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.queries.selection import NAMES, as_name
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.statements import statements
from flows.cli.current import Record, current_snapshot, open_current
from flows.cli.options import AccountNames, AsJson, SnapshotFile, number, since_time
from flows.cli.output.table import listing
from flows.cli.output.terminal import Answer, clean, row
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.engine.run_request import RunRequest
from flows.reporting.progress import notices
from flows.reporting.reader import Reader
from flows.reporting.words import count, join, moment, run_title
from models.text import nearest, one_line

_SQL = statements(__name__)

# The changes that are listed, and the characters shown of a caption beside a change and of an item.
_SHOWN, _BESIDE, _BEGINNING = 100, 24, 80

# The number of characters shown of a value, and of those before the first difference of two.
_VALUE, _CONTEXT = 60, 15

# What is shown of an account's surfaces: titles and columns.
_SURFACE = {
    "feed": "surface",
    "outcome": "outcome",
    "next": "next_scan",
    "why": "next_reason",
    "due (UTC)": "due_at",
    "because": "due_reason",
    "full scan (UTC)": "complete_at",
    "recent scan": "recent_at",
    "full scan due": "full_due_at",
    "error": "error_code",
    "cooldown until": "resume_after",
    "gap since": "gap_since",
}

# The order of events at the same time.
_ORDER = ("received", "new", "returned", "changed", "counted", "missed", "removed", "expired")


def _difference(old: object, new: object) -> str:
    """Return a value before and after a change side by side; of long texts, the parts around the first difference."""
    texts = ["nothing" if value is None else one_line(str(value)) for value in (old, new)]
    # Long texts that differ at their ends would look the same.
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(equal - _CONTEXT, 0) if max(map(len, texts)) > _VALUE else 0
    return " → ".join(("…" if start else "") + one_line(text[start:], _VALUE) for text in texts)


def _differences(changed: Mapping[str, Mapping[str, object]]) -> str:
    return ", ".join(f"{name}: {_difference(values['old'], values['new'])}" for name, values in changed.items())


def _describe_change(change: Record) -> Table:
    """Return what changed of what, and where to look."""
    name = change["ig_username"] or change["account_id"]
    if change["change"] == "renamed":
        name = _difference(change["old_ig_username"], change["new_ig_username"])
    what = join(" ", (name, change.get("surface"), change.get("media_id")))
    columns, caption = change.get("columns"), one_line(change.get("caption") or "", _BESIDE)
    names = "hidden columns, or fields without a column" if columns == [] else ", ".join(columns or ())
    changed = _differences(change.get("values") or {}) or names
    return row(" ", f"{change['change']:<8}", clean(join("  ", (what, caption, change.get("permalink"), changed))))


def _describe_changes(found: Record, numbers: Sequence[Record], *, is_chosen: bool) -> Iterator[RenderableType]:
    """Yield the changes by run; of several runs, those without changes are only counted."""
    runs, listed, changed = found["runs"], found["changes"], [*found["account_changes"], *found["changes"]]
    if not runs:
        yield "No such run: `gramhouse runs` lists the last ones." if is_chosen else "No run yet."
    if len(runs) > 1 and not is_chosen:
        yield f"The last run, and the unfinished runs before it: runs {runs[-1]['seq']} to {runs[0]['seq']}."
    shown = [
        run for run in runs if len(runs) == 1 or any(run["seq"] == each["run_seq"] for each in (*numbers, *changed))
    ]
    for run in shown:
        counts = ", ".join(f"{each['items']:,} {each['change']}" for each in numbers if each["run_seq"] == run["seq"])
        title = f"{run_title(run['kind'], run['selection'])}, began {moment(run['started_at'])} UTC"
        yield row(f"[bold]Run {run['seq']}[/]", f"({clean(title)}): {counts or 'no changes of items'}")
        yield from (_describe_change(change) for change in changed if change["run_seq"] == run["seq"])
    if without := len(runs) - len(shown):
        yield f"[dim]{count(without, 'run')} without changes {'is' if without == 1 else 'are'} not shown.[/]"
    if len(listed) < (total := sum(each["items"] for each in numbers)):
        yield f"The first {len(listed):,} of {count(total, 'change')}. List all with `--limit {total}`."


def changes(
    *,
    since_run: Annotated[int | None, number("Of this run (`seq` in runs) and all later ones.")] = None,
    since: Annotated[
        str | None,
        Parameter(metavar="TIME", help="Of the runs that began since then: 2d, 36h, 90m, or a date (UTC)."),
    ] = None,
    account: AccountNames = None,
    values: Annotated[bool, Parameter(help="Also the values before and after.")] = False,
    limit: Annotated[int | None, number("Number of changes to list. Default: 100, or all with --json.")] = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """List what the last run, or the runs since then, found.

    Runs before the last one that were interrupted, or ended but were not published, are listed with it. An item has one
    line for each run and kind of change, and so has an account: new, renamed, token_expired, active, removed, returned.
    """
    if since_run is not None and since is not None:
        raise SettingsError("--since-run and --since exclude each other. Fix: use one of them.")
    these = _SQL["unreported"] if since_run is None else f"seq >= {since_run}"
    if since is not None:
        these = f"started_at >= TIMESTAMPTZ '{since_time('--since', since, SystemClock().now())}'"
    with open_current(snapshot) as opened:
        reader = Reader(opened, account or ())
        runs = reader.records(_SQL["runs"].format(these=these))
        seqs = [run["seq"] for run in runs]
        reader.records(f"SET VARIABLE run_seqs = {seqs}::BIGINT[]")
        reader.set(first_run=min(seqs, default=0), most=limit or (None if as_json else _SHOWN))
        reader.records(_SQL["listed"])
        listed = reader.records(_SQL["changes_with_values" if values else "changes"])
        of_accounts = reader.records(_SQL["account_changes"])
        numbers = [] if as_json else reader.records(_SQL["counts_by_run"])
    if values:
        listed = [change | {"values": json.loads(change["values"] or "{}")} for change in listed]
    found = {"runs": runs, "changes": listed, "account_changes": of_accounts}
    return Answer(found, _describe_changes(found, numbers, is_chosen=bool(since_run or since)))


def _describe_state(item: Record, events: Sequence[Record]) -> str:
    """Return sentences about whether an item is present, missing or removed, and by which scans."""
    # Scans are those of the last event that has some.
    scans = next((event["scans"] for event in reversed(events) if event.get("scans")), ())
    ended = f"the scan that ended {moment(item['removed_at'] or item['missing_since'])} UTC"
    by = " and ".join(f"the {scan} UTC scan" for scan in scans)
    if item["removal"] == "expired":
        return f"Expired: not listed by {by or ended}, after its lifetime."
    if item["removed_at"] is not None:
        return f"Removed: not listed by {by or f'two scans; the first is {ended}'}. The row is kept."
    left, expired = (moment(item[name]) for name in ("account_removed_at", "token_expired_since"))
    # Whether the items of an account that left the catalogue still exist is unknown.
    what = f"{'Last' if left else 'Present: last'} seen {moment(item['last_seen_at'])} UTC."
    if item["missing_since"] is not None:
        what = f"Missing: not listed by {by or ended}. It is not removed before another scan confirms that."
    why = left and f"Its account left the catalogue {left} UTC."
    return join(" ", (what, why or (expired and f"The token of its account expired {expired} UTC.")))


def _find(opened: Snapshot, what: str) -> list[Record]:
    """Return the ids of each account and item that is called so. Raises SettingsError if there is none."""
    if not (found := _read(opened, "found", what.strip(), as_name(what))):
        names = [str(row["ig_username"]) for row in opened.query("SELECT ig_username FROM accounts")]
        raise SettingsError(
            f"The snapshot has no item or account {what!r}. {nearest(as_name(what), names)}"
            "Fix: `gramhouse accounts` lists the accounts."
        )
    return found


def _read(opened: Snapshot, name: str, *parameters: object) -> list[Record]:
    return opened.query(_SQL[name].format(names=NAMES), parameters)


def _explain_account(opened: Snapshot, account_id: str, settings: Settings) -> Record:
    # Imported here: it imports all that a scan needs, and items have no plan.
    from flows.engine.plan import plan_account

    planned = plan_account(RunRequest(settings), opened, account_id, now=SystemClock().now())
    following = {scan.surface: (scan.scan, scan.reason) for scan in planned}
    [account], surfaces, events = (
        _read(opened, name, account_id) for name in ("account", "surfaces", "account_events")
    )
    for facts in surfaces:
        facts["next_scan"], facts["next_reason"] = following.get(facts["surface"], (None, None))
    return {"account": account, "surfaces": surfaces, "events": events}


def _explain_item(opened: Snapshot, found: Record, *, with_raw: bool) -> Record:
    key = found["account_id"], found["surface"], found["media_id"]
    [item], events = _read(opened, "item", *key), _read(opened, "received", *key) if with_raw else []
    events += [event | {"changes": json.loads(event["changes"] or "{}")} for event in _read(opened, "events", *key)]
    events.sort(key=lambda event: (event["at"], _ORDER.index(event["event"])))
    return {"state": _describe_state(item, events), "item": item, "events": events}


def _explain(path: Path, what: str, settings: Settings, *, with_raw: bool) -> list[Record]:
    with open_snapshot(path, with_raw=with_raw) as opened:
        return [
            _explain_account(opened, found["account_id"], settings)
            if found["media_id"] is None
            else _explain_item(opened, found, with_raw=with_raw)
            for found in _find(opened, what)
        ]


def _describe_event(event: Record, what: str) -> Iterator[RenderableType]:
    renamed = event.get("old") and _difference(event["old"], event["new"])
    why = join(": ", (event.get("error_code"), event.get("detail")))
    ids = (("run", event["run_seq"]), ("correlation id", event.get("correlation_id")))
    trace = ", ".join(f"{name} {value}" for name, value in ids if value)
    text = join("; ", (what, _differences(event.get("changes") or {}), renamed, why, trace))
    yield row(" ", f"[dim]{moment(event['at'], seconds=True)}[/]", clean(text))
    if "payload" in event:
        yield row(" ", f"[dim]{clean(event['payload'])}[/]")


def _describe_item(explained: Record) -> Iterator[RenderableType]:
    item = explained["item"]
    yield f"[bold]{clean(item['surface'])} {clean(item['media_id'])}[/] of {clean(item['ig_username'] or '?')}"
    texts = (item.get("permalink"), one_line(item.get("caption") or "", _BEGINNING), explained["state"])
    yield from (row(" ", clean(text)) for text in texts if text)
    for event in explained["events"]:
        yield from _describe_event(event, event["event"])


def _describe_account(explained: Record) -> Iterator[RenderableType]:
    account = explained["account"]
    yield f"[bold]{clean(account['ig_username'])}[/], account {clean(account['account_id'])}"
    since, missing = moment(account["removed_at"] or account["token_expired_since"]), moment(account["missing_since"])
    status = f"{'removed' if account['removed_at'] else account['status']}{since and f' since {since} UTC'}"
    yield row(" ", clean(join("; ", (status, missing and f"missing from the account list since {missing} UTC"))))
    yield from listing(explained["surfaces"], _SURFACE)
    before: dict[str, object] = {}
    for event in explained["events"]:
        if event["event"] != "scan":
            yield from _describe_event(event, event["event"].replace("_", " "))
        elif before.get(event["surface"]) != (end := (event["outcome"], event["error_code"], event["detail"])):
            before[event["surface"]] = end
            numbers = f"{count(event['pages'], 'page')}, {count(event['items'], 'item')}"
            yield from _describe_event(event, f"{event['surface']} {event['outcome']}, {numbers}")
    if before:
        yield row(" ", "[dim]Scans that ended like the one before are not shown; `--json` has all.[/]")


def explain(
    what: Annotated[
        str,
        Parameter(metavar="ITEM|ACCOUNT", help="Id or permalink of an item; or id, name or public id of an account."),
    ],
    /,
    *,
    raw: Annotated[bool, Parameter(help="Also print an item's JSON as received, each version.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """Show what is known of an item or account, in order of time."""
    settings = load(snapshot=snapshot)
    path = current_snapshot(settings)
    try:
        found = _explain(path, what, settings, with_raw=True)
    except WarehouseUnusable as error:
        if raw:
            raise
        notices.warning(f"Without the raw store: {error}")
        found = _explain(path, what, settings, with_raw=False)
    for event in (event for each in found for event in each["events"] if not raw):
        event.pop("payload", None)
    lines = (_describe_item(each) if "item" in each else _describe_account(each) for each in found)
    return Answer({"found": found}, chain.from_iterable(lines))
