"""`gramhouse accounts`, `gramhouse runs` and `gramhouse quarantine`: lists from the snapshot."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter
from humanize import naturaldelta
from rich.console import RenderableType

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.statements import statements
from flows.cli.current import Current, Record, current, current_snapshot, open_current
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile, number
from flows.cli.output.table import listing
from flows.cli.output.terminal import DONE, WARN, Answer, clean, row
from flows.clock import SystemClock
from flows.config.settings import load
from flows.reporting.progress import notices
from flows.reporting.words import count, join, moment
from models.feeds import SURFACES

_SQL = statements(__name__)

# The number of records of the quarantine that are listed.
_SHOWN = 20

_NEXT = """
To import media items, set the path of their id in gramhouse.toml (media_id), then run `gramhouse rebuild`.
Accounts recover by themselves: each sync reads them again and imports them once the API corrects them.
Give the correlation id to the API's support."""

_SURFACES = sorted(SURFACES)
_COUNTS = ", ".join(f"count(*) FILTER (m.surface = '{each}') AS {each}" for each in _SURFACES)

_RUN = ("seq", "started_at", "kind", "state", "took", "pages", "added", "changed", "gone")

_STATES = {"complete": "green", "partial": "yellow", "interrupted": "yellow", "failed": "red", "running": "cyan"}


def accounts(
    *,
    expired: Annotated[bool, Parameter(help="Only accounts whose access token must be renewed.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """List accounts: status, token expiry and age of their media."""
    with open_current(snapshot) as opened:
        rows = opened.query(_SQL["accounts"].format(counts=_COUNTS), [expired])
    none = "No token is expired." if expired else "No accounts yet."
    return Answer({"accounts": rows}, _list_accounts(rows) if rows else [none])


def _list_accounts(rows: Sequence[Record]) -> Iterator[RenderableType]:
    now = SystemClock().now()
    ages = [naturaldelta(now - each["media_as_of"]) if each["media_as_of"] else "never" for each in rows]
    shown = [each | {"scan age": age} for each, age in zip(rows, ages, strict=True)]
    yield from listing(shown, ("ig_username", "account_id", *_SURFACES, "scan age"), prose=["ig_username"])
    # Below the table: a narrow terminal has no room for another column.
    for each in rows:
        name = f"[bold]{clean(each['ig_username'] or each['account_id'])}[/]:"
        if each["missing_since"] is not None:
            yield row(name, f"missing since {moment(each['missing_since'])} UTC")
        elif each["status"] != "active":
            since = each["token_expired_since"] and f" since {moment(each['token_expired_since'])} UTC"
            yield row(name, f"{clean(each['status'].replace('_', ' '))}{since or ''}")


def runs(
    *,
    last: Annotated[int, number("Number of runs.")] = 20,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """List recent runs: what they landed and how they ended."""
    settings = load(snapshot=snapshot, warehouse=warehouse)
    state = current(settings, last)
    with open_snapshot(current_snapshot(settings)) as opened:
        rows = (state.of(opened) or Current()).list_runs(opened, last)
    if state.problem:
        notices.warning(state.problem)
    return Answer({"runs": rows}, _list_runs(rows))


def _list_runs(rows: Sequence[Record]) -> Iterator[RenderableType]:
    shown = [
        each
        | {"took": each["ended_at"] and each["ended_at"] - each["started_at"]}
        | {"gone": None if each["removed"] is None else each["removed"] + each["expired"]}
        for each in rows
    ]
    yield from listing(shown, _RUN, styles=_STATES)
    for each in rows:
        if why := join(", ", (each["selection"], join(": ", (each["error_code"], each["detail"])))):
            yield row(f"[bold]{each['seq']}[/]", clean(why))


def quarantine(
    *,
    limit: Annotated[int | None, number("Number of records to list. Default: 20, or all with --json.")] = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """List records in quarantine, newest first."""
    with open_current(snapshot) as opened:
        rows = opened.query(_SQL["quarantined"], [limit or (None if as_json else _SHOWN)])
        reasons = opened.query(_SQL["reasons"])
    empty = f"{DONE} Quarantine is empty: every received record is in the tables."
    return Answer({"records": rows}, _list_quarantine(rows, reasons) if rows else [empty])


def _list_quarantine(rows: Sequence[Record], reasons: Sequence[Record]) -> Iterator[RenderableType]:
    total = sum(each["records"] for each in reasons)
    yield f"{WARN} {count(total, 'record')} rejected:"
    yield from (row(" ", f"{each['records']:,}: {clean(each['reason'])}") for each in reasons)
    yield ""
    columns = ("seen_at", "ig_username", "correlation_id", "payload", "surface", "position")
    yield from listing(rows, columns, prose=["payload"])
    if len(rows) < total:
        yield f"The newest {len(rows):,} of {total:,}. List all with `gramhouse quarantine --limit {total}`."
    yield _NEXT
