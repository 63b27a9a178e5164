"""`gramhouse accounts`, `gramhouse runs` and `gramhouse quarantine`: lists from the snapshot."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter
from humanize import naturaldelta

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.statements import statements
from flows.cli.current import current, current_snapshot, open_current
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile, number
from flows.cli.output.table import print_rows
from flows.cli.output.terminal import DONE, WARN, clean, err, out, print_json, print_row
from flows.clock import SystemClock
from flows.config.settings import load
from flows.reporting.words import count, join
from models.feeds import SURFACES

_SQL = statements(__name__)

# The number of records of the quarantine that are shown.
_SHOWN = 20

_NEXT = """To import media items, set the path of their id in gramhouse.toml (media_id), then run `gramhouse rebuild`.
Accounts recover by themselves: each sync reads them again and imports them once the API corrects them.
`gramhouse quarantine --json` shows full payloads. Give the correlation id to the API's support."""

_SURFACES = sorted(SURFACES)
_COUNTS = ", ".join(f"count(*) FILTER (m.surface = '{each}') AS {each}" for each in _SURFACES)

_REMOVED = "SELECT count(*) FROM accounts WHERE removed_at IS NOT NULL"

_STATES = {"complete": "green", "partial": "yellow", "interrupted": "yellow", "failed": "red", "running": "cyan"}


def accounts(
    *,
    expired: Annotated[bool, Parameter(help="Only accounts whose access token must be renewed.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List accounts: status, token expiry and age of their media."""
    with open_current(snapshot) as opened:
        rows = opened.query(_SQL["accounts"].format(counts=_COUNTS), [expired]).records()
        [(removed,)] = opened.query(_REMOVED).rows
    if as_json:
        print_json({"accounts": rows})
        return
    if not rows:
        out.print("No token is expired." if expired else "No accounts yet.")
        return
    now = SystemClock().now()
    columns = {"account": "ig_username", "account id": "account_id", **{each: each for each in _SURFACES}}
    print_rows(
        [row | {"media": _age(row["media_as_of"], now)} for row in rows],
        columns | {"media": "media"},
        prose=("account",),
    )
    # Below the table: a narrow terminal has no room for another column.
    for row in rows:
        if state := _state(row, now):
            print_row(f"[bold]{clean(row['ig_username'] or row['account_id'])}[/]:", clean(state))
    if removed:
        out.print(f"[dim]{count(removed, 'account')} marked as removed and not shown.[/]")


def _age(at: datetime | None, now: datetime) -> str:
    return "never" if at is None else naturaldelta(now - at)


def _state(account: Mapping[str, Any], now: datetime) -> str | None:
    """Return what is wrong with an account, and for how long; None if nothing is."""
    if account["missing_since"] is not None:
        return f"missing {naturaldelta(now - account['missing_since'])}"
    if account["token_expired_since"] is not None:
        return f"expired {naturaldelta(now - account['token_expired_since'])}"
    return None if account["status"] == "active" else str(account["status"])


def runs(
    *,
    last: Annotated[int, number(1, 1_000_000_000, "Number of runs.")] = 20,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List recent runs: what they landed and how they ended."""
    settings = load(snapshot=snapshot, warehouse=warehouse)
    now = current(settings)
    with open_snapshot(current_snapshot(settings)) as opened:
        rows = now.runs(opened, last)
    if now.problem:
        err.print(f"{WARN} {clean(now.problem)}", soft_wrap=True)
    if as_json:
        print_json({"runs": rows})
        return
    for row in rows:
        row |= {"took": row["ended_at"] and row["ended_at"] - row["started_at"]}
        row |= {"gone": None if row["removed"] is None else row["removed"] + row["expired"]}
    columns = {"seq": "seq", "began (UTC)": "started_at", "run": "kind", "state": "state", "took": "took"}
    print_rows(rows, columns | {"pages": "pages", "new": "added", "changed": "changed", "gone": "gone"}, _STATES)
    for row in rows:
        if why := join(", ", (row["selection"], join(": ", (row["error_code"], row["detail"])))):
            print_row(f"[bold]{row['seq'] or 'now'}[/]", clean(why))


def quarantine(
    *,
    limit: Annotated[
        int | None,
        number(1, 1_000_000_000, "Number of records to list. Default: 20, or all with --json."),
    ] = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List records in quarantine, newest first."""
    with open_current(snapshot) as opened:
        rows = opened.query(_SQL["quarantined"], [limit or (None if as_json else _SHOWN)]).records()
        reasons = opened.query(_SQL["reasons"]).records()
    if as_json:
        print_json({"records": rows})
        return
    if not rows:
        out.print(f"{DONE} Quarantine is empty: every received record is in the tables.")
        return
    total = sum(each["records"] for each in reasons)
    out.print(f"{WARN} {count(total, 'record')} rejected:", soft_wrap=True)
    for each in reasons:
        out.print(f"  {each['records']:,}: {clean(each['reason'])}", soft_wrap=True)
    shown = [row | {"whose": row["ig_username"] or row["account_id"] or "the catalogue"} for row in rows]
    place = {"account": "whose", "surface": "surface", "position": "position"}
    out.print()
    print_rows(shown, {"seen (UTC)": "seen_at", **place, "correlation id": "correlation_id"})
    if len(rows) < total:
        out.print(f"The newest {len(rows):,} of {total:,}. List all with `gramhouse quarantine --limit {total}`.")
    out.print(f"\n{_NEXT}", soft_wrap=True)
