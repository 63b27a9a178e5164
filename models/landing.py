"""What lands together, what landed, as a merge is given it, and how that is divided into batches. No IO."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from models.checkpoint import Checkpoint
from models.feeds import Partition
from models.runs import Outcome

# A batch has about this many bytes: large enough that statements cost little, small enough that two fit into memory. An
# outcome counts like this many, because accounts that are skipped land tens of thousands of them without a page.
BATCH_BYTES = 16 * 1024 * 1024
OUTCOME_BYTES = 4096

_WITHOUT_PAGE = 0, datetime.min.replace(tzinfo=UTC), None


@dataclass(frozen=True, slots=True)
class ReceivedPage:
    """A page as the API sent it, with the data that identifies its request.

    `page` is its number in the scan, from 1. A page that cannot be parsed has an empty `scan_id`.
    """

    partition: Partition
    run_id: str
    scan_id: str
    page: int
    received_at: datetime
    correlation_id: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class ScopeCooldown:
    """A rate-limit scope's cooldown: no request before `resume_after` (API 4, 8), even after a restart.

    `asked_at` is when the API requested it, by the same clock: if that clock turns out to have been ahead, the length
    of the wait is still known.
    """

    scope: str
    resume_after: datetime
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PageCommit:
    """Values that land together, in one transaction, or not at all."""

    page: ReceivedPage | None = None
    checkpoint: Checkpoint | None = None
    outcomes: tuple[Outcome, ...] = ()
    cooldown: ScopeCooldown | None = None


@dataclass(frozen=True, slots=True)
class Landing:
    """A page of a scan as it was received, the checkpoint if it closed its scan, and outcomes.

    `seq` is its number in the order of landing, from 1, and `began_seq` that of the scan's first page. `page` is the
    number of the page, from 1; without a page it is 0, `body` is empty, and `received_at`, in UTC, means nothing.
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


def to_landing(seq: int, commit: PageCommit, body: bytes, run_seqs: Mapping[str, int]) -> Landing:
    """Return a page commit as it landed; `run_seqs` are the numbers of runs by their ids."""
    page, checkpoint = commit.page, commit.checkpoint
    about = page or checkpoint or commit.outcomes[0]
    return Landing(
        seq, run_seqs[about.run_id], about.run_id, about.partition, page.scan_id if page else "",
        checkpoint.began_seq or seq if checkpoint else seq,
        *((page.page, page.received_at, page.correlation_id) if page else _WITHOUT_PAGE),
        body, checkpoint if page and checkpoint and checkpoint.is_closed else None, commit.outcomes,
    )  # fmt: skip


def cut_batch(inbox: Iterable[Landing], most_bytes: int = BATCH_BYTES) -> Sequence[Landing]:
    """Return the beginning of the inbox that is merged together; empty if the inbox is.

    It ends before the first page of a partition that an earlier page of the batch closed: within a batch, everything
    that was listed counts before any scan is closed.
    """
    batch: list[Landing] = []
    closed: set[Partition] = set()
    size = 0
    for landing in inbox:
        adds = len(landing.body) + OUTCOME_BYTES * len(landing.outcomes)
        if batch and (size + adds > most_bytes or (landing.body and landing.partition in closed)):
            break
        batch.append(landing)
        size += adds
        if landing.end is not None:
            closed.add(landing.partition)
    return batch
