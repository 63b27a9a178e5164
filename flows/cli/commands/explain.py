"""`gramhouse explain`: what the snapshot knows of one item or account, in order of time."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any

from cyclopts import Parameter
from humanize import precisedelta

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.queries.selection import NAMES, as_name
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.statements import statements
from flows.cli.current import current_snapshot
from flows.cli.options import AsJson, SnapshotFile
from flows.cli.output.terminal import WARN, clean, err, out, print_json, print_row
from flows.config.errors import SettingsError
from flows.config.settings import load
from flows.reporting.words import count, join, moment
from models.feeds import LIFETIMES
from models.text import nearest, one_line

Record = dict[str, Any]

_SQL = statements(__name__)

# The number of characters shown of a value, and of those before the first difference of two.
_VALUE, _CONTEXT = 60, 15

# Of a caption.
_BEGINNING = 80

# The order of events at the same time.
_ORDER = ("received", "new", "returned", "changed", "counted", "missed", "removed", "expired")


def describe_state(item: Mapping[str, Any], events: Sequence[Record]) -> str:
    """Return sentences about whether an item is present, missing or removed, and by which scans; no IO."""
    # Scans are those of the last event that has some.
    scans = next((event["scans"] for event in reversed(events) if event.get("scans")), ())
    by = " and ".join(f"the {scan} UTC scan" for scan in scans)
    ended = f"the scan that ended {moment(item['removed_at'] or item['missing_since'])} UTC"
    if item["removal"] == "expired":
        lifetime = LIFETIMES.get(item["surface"])
        age = "after its lifetime" if lifetime is None else f"more than {precisedelta(lifetime)} after publication"
        return f"Expired: not listed by {by or ended}, {age}."
    if item["removed_at"] is not None:
        return f"Removed: not listed by {by or f'two scans; the first is {ended}'}. The row is kept."
    if item["missing_since"] is not None:
        what = f"Missing: not listed by {by or ended}. It is not removed before another scan confirms that."
    else:
        # Whether the items of an account that left the catalogue still exist is unknown.
        seen = "Present: last seen" if item["account_removed_at"] is None else "Last seen"
        what = f"{seen} {moment(item['last_seen_at'])} UTC."
    if item["account_removed_at"] is not None:
        return f"{what} Its account left the catalogue {moment(item['account_removed_at'])} UTC."
    if item["token_expired_since"] is not None:
        return f"{what} The token of its account expired {moment(item['token_expired_since'])} UTC."
    return what


def _explain_item(opened: Snapshot, key: Sequence[str], *, with_raw: bool) -> Record:
    [item] = opened.query(_SQL["item"], key).records()
    events = [event | {"changes": read_changes(event)} for event in opened.query(_SQL["events"], key).records()]
    received = opened.query(_SQL["received"], key).records() if with_raw else []
    events = sorted([*received, *events], key=lambda event: (event["at"], _ORDER.index(event["event"])))
    return {"state": describe_state(item, events), "item": item, "events": events}


def _explain_account(opened: Snapshot, account_id: str) -> Record:
    [account] = opened.query(_SQL["account"], [account_id]).records()
    surfaces, events = (opened.query(_SQL[name], [account_id]).records() for name in ("surfaces", "account_events"))
    return {"account": account, "surfaces": surfaces, "events": events}


def _explain(opened: Snapshot, what: str, *, with_raw: bool) -> list[Record]:
    found = opened.query(_SQL["found"].format(names=NAMES), [what.strip(), as_name(what)]).rows
    if not found:
        names = [str(name) for (name,) in opened.query("SELECT ig_username FROM accounts").rows]
        raise SettingsError(
            f"The snapshot has no item or account {what!r}. {nearest(as_name(what), names)}"
            "Fix: `gramhouse accounts` lists the accounts."
        )
    return [
        _explain_account(opened, account_id)
        if media_id is None
        else _explain_item(opened, [account_id, surface, media_id], with_raw=with_raw)
        for account_id, _, surface, media_id in found
    ]


def read_changes(row: Mapping[str, Any], name: str = "changes") -> Record:
    """Return the values before and after a change, by column or count, of a row whose column has them as JSON."""
    found: Record = json.loads(row[name] or "{}")
    return found


def describe_change(old: object, new: object) -> str:
    """Return a value before and after a change side by side; of long texts, the parts around the first difference."""
    texts = ["nothing" if value is None else one_line(str(value)) for value in (old, new)]
    # Long texts that differ at their ends would look the same.
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(equal - _CONTEXT, 0) if max(map(len, texts)) > _VALUE else 0
    return " → ".join(("…" if start else "") + one_line(text[start:], _VALUE) for text in texts)


def describe_changes(changes: Mapping[str, Mapping[str, object]]) -> str:
    """Return all values before and after a change."""
    return ", ".join(f"{name}: {describe_change(values['old'], values['new'])}" for name, values in changes.items())


def _describe_event(event: Record) -> str:
    renamed = event.get("old") and describe_change(event["old"], event["new"])
    why = join(": ", (event.get("error_code"), event.get("detail")))
    ids = (("run", event["run_seq"]), ("correlation id", event.get("correlation_id")))
    trace = ", ".join(f"{name} {value}" for name, value in ids if value)
    return join("; ", (describe_changes(event.get("changes") or {}), renamed, why, trace))


def _print_item(explained: Record, *, raw: bool) -> None:
    item = explained["item"]
    out.print(f"[bold]{clean(item['surface'])} {clean(item['media_id'])}[/] of {clean(item['ig_username'] or '?')}")
    for text in (item.get("permalink"), one_line(item.get("caption") or "", _BEGINNING), explained["state"]):
        if text:
            print_row("  ", clean(text))
    for event in explained["events"]:
        print_row(
            f"  [dim]{moment(event['at'], seconds=True)}[/]", f"{event['event']:<8}", clean(_describe_event(event))
        )
        if raw and "payload" in event:
            print_row("  ", f"[dim]{clean(event['payload'])}[/]")


def _surface_facts(row: Record) -> Iterator[str]:
    yield f"last full scan {moment(row['complete_at']) or 'never'}"
    if row["recent_at"]:
        yield f"recent scan {moment(row['recent_at'])}"
    yield join(" ", ("last outcome", row["outcome"] or "none", row["error_code"] and f"({row['error_code']})"))
    if row["resume_after"]:
        yield f"the API asked for no request before {moment(row['resume_after'], seconds=True)}"
    if row["gap_since"]:
        yield f"a scan of {moment(row['gap_since'])} ended early, after {count(row['gap_pages'], 'page')}"
    if row["full_due_at"]:
        yield f"incremental syncs: full scan due {moment(row['full_due_at'])}"


def _print_account(explained: Record) -> None:
    account = explained["account"]
    out.print(f"[bold]{clean(account['ig_username'])}[/], account {clean(account['account_id'])}")
    since = moment(account["removed_at"] or account["token_expired_since"])
    missing = moment(account["missing_since"])
    status = f"{'removed' if account['removed_at'] else account['status']}{f' since {since} UTC' if since else ''}"
    print_row("  ", clean(join("; ", (status, missing and f"missing from the account list since {missing} UTC"))))
    for row in explained["surfaces"]:
        print_row("  ", clean(f"{row['surface']}: {'; '.join(_surface_facts(row))} (UTC)"))
    before: dict[str, object] = {}
    for event in explained["events"]:
        end = event["outcome"], event["error_code"], event["detail"]
        if event["event"] != "scan" or before.get(event["surface"]) != end:
            what = event["event"].replace("_", " ")
            if event["event"] == "scan":
                before[event["surface"]] = end
                numbers = f"{count(event['pages'], 'page')}, {count(event['items'], 'item')}"
                what = f"{event['surface']} {event['outcome']}, {numbers}"
            text = clean(join("; ", (what, _describe_event(event))))
            print_row(f"  [dim]{moment(event['at'], seconds=True)}[/]", text)
    if before:
        out.print("  [dim]Scans that ended like the one before are not shown; `--json` has all.[/]")


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
) -> None:
    """Show what is known of an item or account, in order of time."""
    path = current_snapshot(load(snapshot=snapshot))
    try:
        with open_snapshot(path, with_raw=True) as opened:
            found = _explain(opened, what, with_raw=True)
    except WarehouseUnusable as error:
        if raw:
            raise
        err.print(f"{WARN} Without the raw store: {clean(error)}", soft_wrap=True)
        with open_snapshot(path) as opened:
            found = _explain(opened, what, with_raw=False)
    if not raw:
        for event in (event for each in found for event in each["events"]):
            event.pop("payload", None)
    if as_json:
        print_json({"found": found})
        return
    for each in found:
        if "item" in each:
            _print_item(each, raw=raw)
        else:
            _print_account(each)
