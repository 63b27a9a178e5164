"""`gramhouse quarantine`: list rejected records."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from connectors.warehouse.snapshot.reader import open_snapshot
from flows.cli.options import AsJson, SnapshotFile
from flows.cli.output.terminal import DONE, WARN, clean, out, print_json
from flows.cli.snapshot_download import current_snapshot
from flows.config.settings import load
from flows.reporting.words import count, moment
from models.partition import CATALOGUE
from models.text import one_line

_REASONS = """
SELECT resource, reason, count(*) AS records FROM quarantine GROUP BY ALL ORDER BY records DESC, resource, reason
"""

_RECORDS = """
SELECT q.*, a.ig_username
FROM quarantine AS q
LEFT JOIN accounts AS a USING (account_id)
ORDER BY q.seen_at DESC, q.account_id, q.surface, q.page, q.position
LIMIT ?
"""

_SHOWN = 20
_NO_LIMIT = 2**63 - 1

# The number of reasons in the first line, and of characters shown of a payload.
_NAMED = 3
_PAYLOAD = 160


def _sentence(reason: str) -> str:
    return clean(one_line(reason)).rstrip(".")


def _headline(reasons: Sequence[dict[str, Any]]) -> str:
    total = sum(reason["records"] for reason in reasons)
    named = [f"{_sentence(reason['reason'])} ({reason['records']:,})" for reason in reasons[:_NAMED]]
    if others := reasons[_NAMED:]:
        named.append(f"{count(len(others), 'other reason')} ({sum(reason['records'] for reason in others):,})")
    return f"{WARN} {count(total, 'record')} rejected: {'; '.join(named)}."


def _place(row: dict[str, Any]) -> str:
    if not row["account_id"]:
        whose = "the account catalogue"
    else:
        whose = f"{row['surface']} of {row['ig_username'] or 'account ' + row['account_id']}"
    where = "the whole page" if row["position"] is None else f"position {row['position']}"
    return f"{row['resource']}, {whose}, page {row['page']}, {where}"


def _lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"[bold]{moment(row['seen_at'], seconds=True)}[/] UTC  {clean(_place(row))}"
    yield f"  {_sentence(row['reason'])}."
    trace = f", correlation id {clean(row['correlation_id'])}" if row["correlation_id"] else ""
    last = row.get("last_seen_at")
    again = f", last seen {moment(last, seconds=True)} UTC" if last and last > row["seen_at"] else ""
    yield f"  run {clean(row['run_id'])}{trace}{again}"
    yield f"  [dim]{clean(one_line(row['payload'], _PAYLOAD))}[/]"


def _what_next(resources: Sequence[str]) -> Iterator[str]:
    if {*resources} - {CATALOGUE.resource}:
        yield (
            "To import these items, set the path of their id in gramhouse.toml (media_id), then run"
            " `gramhouse rebuild`."
        )
    if CATALOGUE.resource in resources:
        yield "Accounts recover by themselves: each sync reads them again and imports them once the API corrects them."


def _show(reasons: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not reasons:
        yield f"{DONE} Quarantine is empty: every received record is in the tables."
        return
    yield _headline(reasons)
    for row in rows:
        yield ""
        yield from _lines(row)
    yield ""
    total = sum(reason["records"] for reason in reasons)
    if len(rows) < total:
        yield f"Showing the newest {len(rows):,} of {total:,}. List all with `gramhouse quarantine --limit {total}`."
    yield from _what_next([reason["resource"] for reason in reasons])
    yield "`gramhouse quarantine --json` shows full payloads. Give the correlation id to the API's support."


def quarantine(
    *,
    limit: Annotated[
        int | None,
        typer.Option(help="Number of records to list. Default: 20, or all with --json.", min=1, max=1_000_000_000),
    ] = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List records in quarantine, newest first, with the ids needed to trace their requests."""
    with open_snapshot(current_snapshot(load(snapshot=snapshot))) as opened:
        rows = opened.query(_RECORDS, [limit or (_NO_LIMIT if as_json else _SHOWN)]).records()
        reasons = opened.query(_REASONS).records()
    if as_json:
        print_json({"records": rows})
    else:
        for line in _show(reasons, rows):
            # Not wrapped, because an id that is split over two lines cannot be copied.
            out.print(line, soft_wrap=True)
