"""Divides landed frames into the batches that are merged, and records which of them are merged."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.storage.connection import Connection
from models.page_commit import PageCommit
from models.partition import Partition
from models.schema.fields import MEDIA

# The most records of a merge, to within one page commit: also without items, each takes 14 to 27 kB of memory. 16 MB of
# full pages are about 600 commits.
MOST_RECORDS = 4_000


def records_in(commit: PageCommit) -> int:
    """Return the number of records of a page commit: its outcomes, of which the last commit of a scan has one."""
    return max(1, len(commit.outcomes))


@dataclass(frozen=True, slots=True)
class Merged:
    """The landing numbers that are merged: all up to `seq`, and those in `ahead`."""

    seq: int
    ahead: frozenset[int] = frozenset()

    def __contains__(self, seq: int) -> bool:
        return seq <= self.seq or seq in self.ahead

    def with_batch(self, batch: Iterable[Frame], left: Iterable[Frame]) -> "Merged":
        """Return the numbers that are merged after a batch; `left` are all other frames that landed before this."""
        done = self.ahead.union(frame.seq for frame in batch)
        seq = min((frame.seq - 1 for frame in left), default=max(done, default=self.seq))
        return Merged(max(seq, self.seq), frozenset(one for one in done if one > seq))


def read_merged(connection: Connection) -> Merged:
    """Return which landing numbers are merged."""
    query = "SELECT merged_seq, merged_ahead FROM ops.warehouse"
    [(seq, ahead)] = connection.db.execute(query).fetchall()
    return Merged(seq, frozenset(ahead or ()))


def write_merged(connection: Connection, merged: Merged) -> None:
    """Record which landing numbers are merged, in the open transaction that merges them."""
    ahead = ", ".join(map(str, sorted(merged.ahead)))
    connection.db.execute(f"UPDATE ops.warehouse SET merged_seq = {merged.seq}, merged_ahead = [{ahead}]")  # noqa: S608


def first_records(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yield the first frames, as many as are merged at once."""
    records = 0
    for frame in frames:
        yield frame
        records += records_in(frame.commit)
        if records >= MOST_RECORDS:
            return


def batches_of(frames: Iterable[Frame]) -> list[list[Frame]]:
    """Divide frames, in the order of landing: in a batch at most the last scan of a partition is closed.

    All items of a batch go to one table, so a merge has one table of items.

    The removals of a closed scan must be decided before the pages of the partition's next scan are merged, because
    afterwards the items that it missed could not be found. So a frame is in the batch after those of the scans of its
    partition that were closed before it. Within a partition the order of landing holds; partitions do not
    depend on each other.
    """
    closed = Counter[Partition]()
    batches: dict[tuple[int, str], list[Frame]] = {}
    for frame in frames:
        partition, checkpoint = frame.partition, frame.commit.checkpoint
        number = 0 if partition is None else closed[partition]
        batches.setdefault((number, items_table([frame])), []).append(frame)
        if checkpoint is not None and checkpoint.is_closed:
            closed[checkpoint.partition] += 1
    return list(batches.values())


def items_table(batch: Iterable[Frame]) -> str:
    """Return the table of a batch's items. What is of no feed is in the batches of media."""
    feeds = (one.partition for one in batch if one.partition is not None and one.partition.surface)
    return next((partition.resource for partition in feeds), MEDIA)
