"""Merges what has landed: a batch at a time, each in its own transaction, and then deleted from the inbox."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.landed import cut_batch, to_landed_page
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.storage.connection import release_memory
from connectors.warehouse.storage.identity import read_merged
from models.mapping import Mapping as MediaMapping
from models.media_page import PagePaths
from models.page_commit import Landing


@dataclass(frozen=True, slots=True)
class Reading:
    """How pages and items are read: with the mapping in force, and with the settings' paths within a page."""

    mapping: MediaMapping
    paths: PagePaths


def merge_landed(
    db: DuckDBPyConnection,
    raw: Path,
    reading: Reading,
    *,
    after: Callable[[int], Generator[Landing]],
    run_seqs: Mapping[str, int],
    last: int,
    on_merged: Callable[[int], None],
) -> MergeStats:
    """Merge what landed up to the number `last` and is not merged; return the counts of changes.

    What lands meanwhile waits for the next merge. `after` reads what landed after a number, in order, and `run_seqs`
    has the numbers of the runs that landed it. `on_merged` is called with the last number of each batch after its
    commit. Raises duckdb.Error and OSError; earlier batches are merged then.
    """
    # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
    # commands that merge nothing do not need it.
    from connectors.warehouse.merge.merge import merge_batch  # noqa: PLC0415

    total = MergeStats()
    while (merged := read_merged(db)) < last:
        with closing(after(merged)) as landings:
            waiting = takewhile(lambda landing: landing.seq <= last, landings)
            batch = cut_batch(to_landed_page(landing, run_seqs) for landing in waiting)
        total += merge_batch(db, batch, reading.mapping, raw, reading.paths)
        on_merged(batch[-1].seq)
        release_memory(db)
    return total
