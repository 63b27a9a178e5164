"""`gramhouse quarantine`: list rejected records."""

from typing import Annotated

import typer

from connectors.warehouse.snapshot.reader import open_snapshot
from flows.cli.options import AsJson, SnapshotFile
from flows.cli.output.plain_table import print_rows
from flows.cli.output.terminal import DONE, WARN, clean, out, print_json
from flows.cli.snapshot_download import current_snapshot
from flows.config.settings import load
from flows.reporting.words import count

_REASONS = "SELECT reason, count(*) AS records FROM quarantine GROUP BY ALL ORDER BY records DESC, reason"

_RECORDS = """
SELECT q.*, a.ig_username
FROM quarantine AS q
LEFT JOIN accounts AS a USING (account_id)
ORDER BY q.seen_at DESC, q.account_id, q.surface, q.page, q.position
LIMIT ?
"""

_SHOWN = 20
_NO_LIMIT = 2**63 - 1

_NEXT = """To import media items, set the path of their id in gramhouse.toml (media_id), then run `gramhouse rebuild`.
Accounts recover by themselves: each sync reads them again and imports them once the API corrects them.
`gramhouse quarantine --json` shows full payloads. Give the correlation id to the API's support."""


def quarantine(
    *,
    limit: Annotated[
        int | None,
        typer.Option(help="Number of records to list. Default: 20, or all with --json.", min=1, max=1_000_000_000),
    ] = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List records in quarantine, newest first."""
    with open_snapshot(current_snapshot(load(snapshot=snapshot))) as opened:
        rows = opened.query(_RECORDS, [limit or (_NO_LIMIT if as_json else _SHOWN)]).records()
        reasons = opened.query(_REASONS).records()
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
