"""What a merge is given: landed pages, in the order of their landing numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from models.checkpoint import Checkpoint
from models.page_commit import Landing
from models.partition import Partition
from models.runs import Outcome

# A batch has about this many bytes: large enough that statements cost little, small enough that two fit into memory. An
# outcome counts like this many, because accounts that are skipped land tens of thousands of them without a page.
BATCH_BYTES = 16 * 1024 * 1024
OUTCOME_BYTES = 4096

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LandedPage:
    """A landing: a page of a scan as it was received, the checkpoint if it closed its scan, and outcomes.

    `body` is empty for outcomes without a page. `began_seq` is the landing of the scan's first page, and `page` the
    number of this one, from 1. `received_at` is in UTC.
    """

    seq: int
    run_seq: int
    run_id: str
    partition: Partition
    scan_id: str
    began_seq: int
    page: int
    received_at: datetime
    correlation_id: str | None
    body: bytes
    end: Checkpoint | None = None
    outcomes: tuple[Outcome, ...] = ()


def to_landed_page(landing: Landing, run_seqs: Mapping[str, int]) -> LandedPage:
    """Return a landing as a merge reads it; `run_seqs` are the numbers of runs by their ids."""
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
        checkpoint if page and checkpoint and checkpoint.is_closed else None,
        outcomes,
    )


def cut_batch(inbox: Iterable[LandedPage], most_bytes: int = BATCH_BYTES) -> Sequence[LandedPage]:
    """Return the beginning of the inbox that is merged together; empty if the inbox is.

    It ends before the first page of a partition that an earlier page of the batch closed: within a batch, everything
    that was listed counts before any scan is closed.
    """
    batch: list[LandedPage] = []
    closed: set[Partition] = set()
    size = 0
    for page in inbox:
        adds = len(page.body) + OUTCOME_BYTES * len(page.outcomes)
        if batch and (size + adds > most_bytes or (page.body and page.partition in closed)):
            break
        batch.append(page)
        size += adds
        if page.end is not None:
            closed.add(page.partition)
    return batch
