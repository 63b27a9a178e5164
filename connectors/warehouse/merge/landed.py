"""Merges what landed, each batch in its own transaction."""

from collections.abc import Callable, Generator
from contextlib import closing
from itertools import takewhile

from connectors.warehouse.merge.batches import next_batch, read_merged, write_merged
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.raw.parts import confirm_part
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.limits import in_enough_memory, release_memory
from models.page_commit import Landing


def merge_landed(
    connection: Connection, after: Callable[[int], Generator[Landing]], on_merged: Callable[[int], None], last: int
) -> MergeStats:
    """Merge what landed up to the number `last` and is not merged; return the counts of changes.

    What lands meanwhile waits for the next merge. `after` reads what landed after a number, in order. `on_merged` is
    called with the last number of each batch after its commit. The connection must not be in a transaction. If an error
    ends it, earlier batches are merged.
    """
    # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
    # commands that merge nothing do not need it.
    from connectors.warehouse.merge.merge import merge  # noqa: PLC0415

    def transaction() -> tuple[int, MergeStats]:
        with connection.begin():
            with closing(after(read_merged(connection))) as landings:
                batches = [next_batch(takewhile(lambda one: one.seq <= last, landings))]
            merged = batches[0][-1].seq
            # Without a reference of its own, so that the bodies are freed during the merge.
            counts = merge(connection, batches.pop())
            write_merged(connection, merged)
            return merged, counts

    # Columns that are filled need the part that an earlier merge could not rename.
    confirm_part(connection)
    with connection.begin():
        merged, counts = read_merged(connection), MergeStats()
    while merged < last:
        merged, more = in_enough_memory(connection.db, transaction)
        confirm_part(connection)
        on_merged(merged)
        counts += more
    release_memory(connection.db)
    return counts
