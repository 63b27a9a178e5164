"""`gramhouse explain`: what the snapshot knows of one item or account, in order of time."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, pairwise, takewhile
from typing import Annotated, Any

import typer
from humanize import precisedelta

from connectors.warehouse.merge.removals import CONFIRM_AFTER_HOURS
from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.queries.selection import NAMES, as_name
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.statements import statements
from flows.cli.current import current_snapshot
from flows.cli.options import AsJson, SnapshotFile
from flows.cli.output.terminal import WARN, clean, err, print_json, print_lines
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.reporting.words import count, join, moment
from models.feeds import LIFETIMES
from models.text import one_line

Record = dict[str, Any]

_SQL = statements(__name__)

# The number of characters shown of a value, and of those before the first difference of two.
_VALUE, _CONTEXT = 60, 15

# With GRAMHOUSE_SCAN_EXPIRED.
_STAYS = " While the account's token is expired, no scan marks it as removed."

# The order of events at the same time.
_OF_ITEMS = ("received", "new", "returned", "changed", "counted", "missed", "removed", "expired")
_EVENTS = (*_OF_ITEMS, "renamed", "status", "scan")


def _in_order(events: Sequence[Record]) -> list[Record]:
    return sorted(events, key=lambda event: (event["at"], _EVENTS.index(event["event"])))


def item_events(
    item: Record,
    versions: Sequence[Record],
    counts: Sequence[Record],
    received: Sequence[Record],
    removals: Sequence[Record],
) -> list[Record]:
    """Return what happened to an item, in order of time; no IO.

    Each event has `at` and `event`: received, new, changed (with `changes` by column), counted (with `counts`), missed,
    removed, expired, returned. All but received and missed have `run_seq`, which is None if the run is unknown.
    """
    events = [*removals, *({"at": row["seen_at"], "event": "received", **row} for row in received)]
    events.append({"at": item["first_seen_at"], "event": "new", "run_seq": item["first_run_seq"]})
    for before, after in pairwise(versions):
        changes = {name: {"old": before[name], "new": after[name]} for name in before["columns"]}
        # An earlier version has the run that found the next one.
        found_by = {"at": after["valid_from"], "run_seq": before["run_seq"]}
        events.append({**found_by, "event": "changed", "changes": changes})
    for (at, run_seq), of_time in groupby(counts, key=lambda row: (row["at"], row["run_seq"])):
        counted = {row["metric"]: {"old": row["old"], "new": row["value"]} for row in of_time}
        events.append({"at": at, "event": "counted", "run_seq": run_seq, "counts": counted})
    if item["missing_since"] is not None:
        events.append({"at": item["missing_since"], "event": "missed"})
    return _in_order(events)


def _limits(item: Record) -> str:
    """Return why an item's account is not scanned, and since when, or that scans mark nothing; empty if they do."""
    if item["account_removed_at"] is not None:
        return f" Not scanned since the account left the catalogue ({moment(item['account_removed_at'])} UTC)."
    if (since := item["token_expired_since"]) is None:
        return ""
    if any(at and at > since for at in (item["complete_at"], item["recent_at"])):
        return _STAYS
    return f" Not scanned since the account's token expired ({moment(since)} UTC)."


def item_state(item: Record) -> str:
    """Return a sentence about whether an item is present, missing or removed, and why; no IO."""
    if item["removal"] == "expired":
        lifetime = LIFETIMES.get(item["surface"])
        age = "after its lifetime" if lifetime is None else f"more than {precisedelta(lifetime)} after publication"
        return f"Expired: a scan that ended {moment(item['removed_at'])} UTC did not list it, {age}."
    if item["removed_at"] is not None:
        ended = moment(item["removed_at"])
        return f"Removed: two complete scans in a row did not list it; the first ended {ended} UTC. The row is kept."
    limits = _limits(item)
    if item["missing_since"] is not None:
        missing = f"Missing: the scan that ended {moment(item['missing_since'])} UTC did not list it."
        if limits == _STAYS:
            return f"{missing}{limits}"
        return (
            f"{missing} It is marked as removed if the next complete scan, begun at least"
            f" {count(CONFIRM_AFTER_HOURS, 'hour')} later, does not either.{limits}"
        )
    # Whether the items of an account that left the catalogue still exist is unknown.
    seen = "Present: last seen" if item["account_removed_at"] is None else "Last seen"
    return f"{seen} {moment(item['last_seen_at'])} UTC.{limits}"


def next_scan(account: Record, surface: Record, settings: Settings, *, now: datetime) -> str:
    """Return what the next sync will do for an account's surface; no IO."""
    if account["status"] == "token_expired" and not settings.scan_expired:
        return "is skipped until the token is renewed, unless GRAMHOUSE_SCAN_EXPIRED is set"
    if (until := surface["resume_after"]) is not None and until > now:
        return f"waits until {moment(until, seconds=True)} UTC, as the API asked"
    if surface["gap_resumes"]:
        return f"resumes after page {surface['gap_pages']}, or begins again if that was too long ago"
    if settings.sync_mode == "incremental" and (due := surface["full_due_at"]) is not None and due > now:
        return f"begins at the first page and ends at known posts; a full one is due {moment(due)} UTC"
    return "begins at the first page"


def with_runs(events: Sequence[Record], runs: Sequence[Record]) -> list[Record]:
    """Return the events with the `run_id` of their run instead of its `run_seq`, None if it is not listed; no IO.

    Events without a run have that during which they happened. `runs` are in the order in which they began.
    """
    ids = {run["seq"]: run["run_id"] for run in runs}

    def run_of(event: Record) -> str | None:
        if (seq := event.get("run_seq")) is not None:
            return ids.get(seq)
        at = event["at"]
        during = [run for run in runs if run["started_at"] <= at and (run["ended_at"] is None or at <= run["ended_at"])]
        return during[-1]["run_id"] if during else None

    return [
        {"run_id": run_of(event), **{name: value for name, value in event.items() if name != "run_seq"}}
        for event in events
    ]


def _item(opened: Snapshot, key: Sequence[str], *, with_raw: bool) -> Record:
    def rows(name: str) -> list[Record]:
        return opened.query(_SQL[name], key).records()

    [item] = rows("item")
    events = item_events(item, rows("versions"), rows("counts"), rows("raw") if with_raw else [], rows("events"))
    return {"state": item_state(item), "item": item, "events": with_runs(events, opened.query(_SQL["runs"]).records())}


def _account(opened: Snapshot, account_id: str, settings: Settings, *, now: datetime) -> Record:
    [account] = opened.query(_SQL["account"], [account_id]).records()
    surfaces = opened.query(_SQL["surfaces"], [account_id]).records()
    events = [{"event": "status", **row} for row in opened.query(_SQL["statuses"], [account_id]).records()]
    renames = opened.query(_SQL["renames"], [account_id]).records()
    events += [{"event": "renamed", "at": row.pop("at"), "changes": {"ig_username": row}} for row in renames]
    events += [{"event": "scan", **row} for row in opened.query(_SQL["outcomes"], [account_id]).records()]
    return {
        "account": account,
        "surfaces": [row | {"next_scan": next_scan(account, row, settings, now=now)} for row in surfaces],
        "events": _in_order(events),
    }


def pair(change: Mapping[str, object]) -> str:
    """Return a value before and after a change side by side; of long texts, the parts around the first difference."""
    texts = ["nothing" if value is None else one_line(str(value)) for value in change.values()]
    # Long texts that differ at their ends would look the same.
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
    start = max(equal - _CONTEXT, 0) if max(map(len, texts)) > _VALUE else 0
    return " → ".join(("…" if start else "") + one_line(text[start:], _VALUE) for text in texts)


def _text(event: Record) -> str:
    of_event = {**event.get("changes", {}), **event.get("counts", {})}
    pairs = ", ".join(f"{name}: {pair(change)}" for name, change in of_event.items())
    scan = ""
    if event["event"] == "scan":
        scan = (
            f"{event['surface']} {event['outcome']}, {count(event['pages'], 'page')}, {count(event['items'], 'item')}"
        )
    why = join(": ", (event.get("error_code"), event.get("detail")))
    ids = (("run", event.get("run_id")), ("correlation id", event.get("correlation_id")))
    trace = ", ".join(f"{name} {value}" for name, value in ids if value)
    return join("  ", (pairs, scan, event.get("status"), why, f"({trace})" if trace else ""))


def _timeline(events: Sequence[Record], *, raw: bool) -> Iterator[str]:
    for event in events:
        at = moment(event["at"], seconds=True)
        yield f"  [dim]{at}[/]  {event['event']:<8}  {clean(_text(event))}"
        if raw and "payload" in event:
            yield f"  [dim]{clean(event['payload'])}[/]"


def _shown(explained: Record, *, raw: bool) -> Iterator[str]:
    if "item" in explained:
        item = explained["item"]
        yield f"[bold]{clean(item['surface'])} {clean(item['media_id'])}[/] of {clean(item['ig_username'] or '?')}"
        if item.get("permalink"):
            yield f"  {clean(item['permalink'])}"
        yield f"  {explained['state']}"
    else:
        account = explained["account"]
        since = moment(account["removed_at"] or account["token_expired_since"])
        status = "removed" if account["removed_at"] else account["status"]
        yield f"[bold]{clean(account['ig_username'])}[/], account {clean(account['account_id'])}"
        missing = moment(account["missing_since"])
        unconfirmed = f"; missing from the account list since {missing} UTC" if missing else ""
        yield f"  {clean(status)}{f' since {since} UTC' if since else ''}{unconfirmed}"
        for row in explained["surfaces"]:
            full, recent = moment(row["complete_at"]) or "never", moment(row["recent_at"])
            scanned = f"scanned to the end {full}{f', to known posts {recent}' if recent else ''}"
            last = join(" ", ("last outcome", row["outcome"] or "none", row["error_code"] and f"({row['error_code']})"))
            yield f"  {row['surface']}: {scanned}; {clean(last)}; the next scan {row['next_scan']}"
    yield from _timeline(explained["events"], raw=raw)


def _explained(opened: Snapshot, what: str, settings: Settings, *, with_raw: bool) -> list[Record]:
    found = opened.query(_SQL["found"].format(names=NAMES), [what.strip(), as_name(what)]).records()
    if not found:
        raise SettingsError(
            f"The snapshot has no item or account {what!r}. Fix: `gramhouse accounts` lists the accounts."
        )
    now = SystemClock().now()
    return [
        _account(opened, row["account_id"], settings, now=now)
        if row["media_id"] is None
        else _item(opened, [row["account_id"], row["surface"], row["media_id"]], with_raw=with_raw)
        for row in found
    ]


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ITEM|ACCOUNT", help="Id or permalink of an item; or id, name or public id of an account."
        ),
    ],
    *,
    raw: Annotated[bool, typer.Option("--raw", help="Also print an item's JSON as received, each version.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what is known of an item or account, in order of time."""
    settings = load(snapshot=snapshot)
    path = current_snapshot(settings)
    try:
        with open_snapshot(path, with_raw=True) as opened:
            found = _explained(opened, what, settings, with_raw=True)
    except WarehouseUnusable as error:
        if raw:
            raise
        err.print(f"{WARN} Without the raw store: {clean(error)}", soft_wrap=True)
        with open_snapshot(path) as opened:
            found = _explained(opened, what, settings, with_raw=False)
    for event in (event for each in found for event in each["events"]):
        if not raw:
            event.pop("payload", None)
    if as_json:
        print_json({"found": found})
        return
    for each in found:
        print_lines(_shown(each, raw=raw))
