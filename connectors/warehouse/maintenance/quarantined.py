"""Imports quarantined items that have an id with the current mapping, in the order in which they were received.

Rejected accounts are not decoded again, because every sync lists all accounts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.merge.batches import write_merged
from connectors.warehouse.merge.merge import merge
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.statements import statements
from models.item import read_key
from models.mapping import Mapping
from models.page_commit import PageCommit, ReceivedPage, landing
from models.partition import Partition
from models.record import RejectedItem

# The most bytes of payloads in one batch.
_BATCH_BYTES = 16 * 1024 * 1024

_SQL = statements(__name__)

_RECORDS = """
SELECT rowid, payload FROM core.quarantine
WHERE resource = ? AND position IS NOT NULL AND seen_at > coalesce(?, '-infinity'::TIMESTAMPTZ) AND seen_at <= ?
"""

_TO_MERGE = """
SELECT account_id, surface, run_id, page, seen_at, correlation_id, payload FROM temp.identified WHERE NOT outdated
ORDER BY seen_at, page, position, record
"""


@dataclass(frozen=True, slots=True)
class Imported:
    """A batch of records received up to `last`: how many became rows, and how many were deleted as outdated."""

    last: datetime
    rows: int
    outdated: int


def import_batch(
    connection: Connection,
    table: str,
    *,
    after: datetime | None,
    take: Callable[[int], int],
    batch_bytes: int = _BATCH_BYTES,
) -> Imported | None:
    """Import a batch of a table's records received `after` that time, in the open transaction; None if none are left.

    Records that have an id leave the quarantine. Those that are older than the last sighting of their stored item are
    deleted, all others are merged. Before it, everything that landed must be merged, and the open scans copied. `take`
    takes that many landing numbers, and returns the number before the first of them. Call `confirm_part` after the
    commit.
    """
    run = connection.db.execute
    ((last,),) = run(_SQL["last"], {"resource": table, "after": after, "most": batch_bytes}).fetchall()
    if last is None:
        return None
    mapping = read_mapping(connection)
    found = [(record, _id_of(payload, mapping)) for record, payload in run(_RECORDS, [table, after, last]).fetchall()]
    ids = {record: media_id for record, media_id in found if media_id is not None}
    if not ids:
        return Imported(last, 0, 0)
    run(_SQL["identified"].format(items=f"core.{table}"), {"records": list(ids), "ids": list(ids.values())})
    commits = []
    for account_id, surface, run_id, page, seen_at, correlation_id, payload in run(_TO_MERGE).fetchall():
        # The scan that received it may have ended, so the page belongs to none.
        partition, body = Partition(table, account_id, surface), f'{{"items":[{payload}]}}'
        commits.append(PageCommit(ReceivedPage(partition, run_id, "", page, seen_at, correlation_id, body)))
    run("DELETE FROM core.quarantine WHERE rowid IN (SELECT record FROM temp.identified)")
    first = take(len(commits)) + 1
    rejected = merge(connection, [landing(seq, commit) for seq, commit in enumerate(commits, first)]).quarantined
    write_merged(connection, first + len(commits) - 1)
    run(_SQL["missing"].format(items=f"core.{table}"))
    run("DROP TABLE temp.identified")
    return Imported(last, len(commits) - rejected, len(ids) - len(commits))


def count_quarantined(connection: Connection) -> int:
    """Return the number of records in quarantine."""
    return int(value(connection.db, "SELECT count(*) FROM core.quarantine"))


def _id_of(payload: str, mapping: Mapping) -> str | None:
    try:
        return read_key(payload.encode(), mapping).media_id
    except RejectedItem:
        return None
