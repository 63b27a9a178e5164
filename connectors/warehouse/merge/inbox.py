"""Merges what has landed: a batch at a time, each in its own transaction, and then deleted from the inbox."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.landed import LandedPage, ScanEnd, cut_batch
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.storage.connection import release_memory
from connectors.warehouse.storage.identity import read_merged
from models.checkpoint import Checkpoint, ScanState
from models.mapping import Mapping as MediaMapping
from models.media_page import PagePaths
from models.page_commit import Landing

_NEVER = datetime.min.replace(tzinfo=UTC)
_COUNTED = {one.name for one in fields(MergeStats)}


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

    total: Counter[str] = Counter()
    while (merged := read_merged(db)) < last:
        with closing(after(merged)) as landings:
            waiting = takewhile(lambda landing: landing.seq <= last, landings)
            batch = cut_batch(_landed_page(landing, run_seqs) for landing in waiting)
        counts = merge_batch(db, batch, reading.mapping, raw, reading.paths)
        on_merged(batch[-1].seq)
        release_memory(db)
        total.update({name: number for name, number in asdict(counts).items() if name in _COUNTED})
    return MergeStats(**total)


def _landed_page(landing: Landing, run_seqs: Mapping[str, int]) -> LandedPage:
    """Return a landing as a merge reads it. What has no page has an empty body."""
    page, checkpoint, outcomes = landing.commit.page, landing.commit.checkpoint, landing.commit.outcomes
    about = page or checkpoint or outcomes[0]
    began_seq = None if checkpoint is None else checkpoint.began_seq
    return LandedPage(
        landing.seq,
        run_seqs[about.run_id],
        about.run_id,
        about.partition,
        page.scan_id if page else "",
        landing.seq if began_seq is None else began_seq,
        page.page if page else 0,
        page.received_at if page else _NEVER,
        page.correlation_id if page else None,
        landing.body,
        None if checkpoint is None or page is None else _end_of(checkpoint),
        outcomes,
    )


def _end_of(checkpoint: Checkpoint) -> ScanEnd | None:
    """Return what a page closed, by the checkpoint after it; None if its scan goes on, or was abandoned."""
    if not checkpoint.is_closed:
        return None
    return ScanEnd(
        "recent" if checkpoint.state is ScanState.RECENT else "complete",
        checkpoint.started_at,
        checkpoint.pages,
        checkpoint.items,
        checkpoint.read_to,
        checkpoint.order_broken_by,
        checkpoint.full_share,
        checkpoint.had_expired_token,
    )
