"""Divides what landed into the batches that are merged, and records up to which landing everything is merged."""

from collections.abc import Iterable

from connectors.warehouse.storage.connection import Connection, value
from models.page_commit import Landing, PageCommit
from models.partition import Partition
from models.schema.fields import MEDIA

# The most records of a merge, to within one page commit: also without items, each takes 14 to 27 kB of memory. 16 MB of
# full pages are about 600 commits.
MOST_RECORDS = 4_000


def records_in(commit: PageCommit) -> int:
    """Return the number of records of a page commit: its outcomes, of which the last commit of a scan has one."""
    return max(1, len(commit.outcomes))


def read_merged(connection: Connection) -> int:
    """Return the landing number up to which everything is merged."""
    return int(value(connection.db, "SELECT merged_seq FROM ops.warehouse"))


def write_merged(connection: Connection, seq: int) -> None:
    """Record the landing number up to which everything is merged, in the open transaction that merges it."""
    connection.db.execute(f"UPDATE ops.warehouse SET merged_seq = {seq}")  # noqa: S608 - a number


def next_batch(landings: Iterable[Landing]) -> list[Landing]:
    """Return the first landings, as many as are merged at once.

    A batch ends before the first page of a partition whose scan was closed within it: the removals of a closed scan
    must be decided before pages of the next one are merged, because afterwards the items that it missed could not be
    found. All items of a batch go to one table.
    """
    batch: list[Landing] = []
    closed = set[Partition]()
    table, records = "", 0
    for one in landings:
        partition, checkpoint = one.partition, one.commit.checkpoint
        if partition in closed:
            break
        if partition is not None and partition.surface:
            if table not in ("", partition.resource):
                break
            table = partition.resource
        batch.append(one)
        records += records_in(one.commit)
        if records >= MOST_RECORDS:
            break
        if checkpoint is not None and checkpoint.is_closed:
            closed.add(checkpoint.partition)
    return batch


def items_table(batch: Iterable[Landing]) -> str:
    """Return the table of a batch's items. What is of no feed is in the batches of media."""
    feeds = (one.partition for one in batch if one.partition is not None and one.partition.surface)
    return next((partition.resource for partition in feeds), MEDIA)
