"""Merges landed frames, each batch in its own transaction."""

from collections.abc import Callable, Iterable
from itertools import chain, islice

from connectors.warehouse.ingest.landing.batches import batches_of, first_records, read_merged, write_merged
from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.raw.parts import confirm_part
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.limits import in_enough_memory, release_memory


def merge_landed(connection: Connection, frames: Callable[[], Iterable[Frame]]) -> tuple[int, MergeStats]:
    """Merge everything that landed and is not merged; return the last landing number, and the counts of changes.

    `frames` reads what landed, in order. It is called for each batch, so that the bodies of a batch are freed while it
    is merged. The connection must not be in a transaction. If an error ends it, earlier batches are merged.
    """
    # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
    # commands that merge nothing do not need it.
    from connectors.warehouse.merge.merge import merge  # noqa: PLC0415

    def transaction() -> tuple[bool, MergeStats]:
        with connection.begin():
            merged = read_merged(connection)
            unmerged = (frame for frame in frames() if frame.seq not in merged)
            batches = batches_of(first_records(unmerged))
            if not batches:
                return False, MergeStats()
            left = [*chain.from_iterable(batches[1:]), *islice(unmerged, 1)]
            following, is_left = merged.with_batch(batches[0], left), bool(left)
            # They keep segments in memory.
            del batches[1:], left, unmerged
            counts = merge(connection, batches.pop())
            write_merged(connection, following)
            return is_left, counts

    # Columns that are filled need the part that an earlier merge could not rename.
    confirm_part(connection)
    is_left, counts = True, MergeStats()
    while is_left:
        is_left, more = in_enough_memory(connection.db, transaction)
        confirm_part(connection)
        counts += more
    release_memory(connection.db)
    with connection.begin():
        return read_merged(connection).seq, counts
