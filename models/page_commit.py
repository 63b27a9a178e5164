"""What one commit makes durable together: a page, its checkpoint, and its partition's outcome."""

from dataclasses import dataclass
from datetime import datetime

from models.checkpoint import Checkpoint
from models.partition import Partition
from models.rejected_record import RejectedRecord
from models.runs import Outcome


@dataclass(frozen=True, slots=True)
class StagedPage:
    """A page as the API sent it, with what is needed to find its request again.

    One that could not be read has no items and an empty `scan_id`: it is `rejected` whole. `page` counts the scan's
    pages from 1. `unknown_fields` are paths the contract does not know.
    """

    partition: Partition
    run_id: str
    scan_id: str
    page: int
    received_at: datetime
    correlation_id: str | None
    body: str
    rejected: tuple[RejectedRecord, ...] = ()
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopeCooldown:
    """A tenant scope's cooldown: it is not asked again before `resume_after` (API 4, 8): it outlives the process.

    `asked_at` is when the API asked for it, by the same clock: should that turn out to have been ahead, the length of
    the wait is known.
    """

    scope: str
    resume_after: datetime
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PageCommit:
    """All of this lands together, as one frame of a segment, or none of it."""

    page: StagedPage | None = None
    checkpoint: Checkpoint | None = None
    outcomes: tuple[Outcome, ...] = ()
    cooldown: ScopeCooldown | None = None
