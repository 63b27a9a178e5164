"""The unit that becomes durable together: a page, its checkpoint, and its partition's outcome."""

from dataclasses import dataclass
from datetime import datetime

from models.checkpoint import Checkpoint
from models.partition import Partition
from models.runs import Outcome


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that goes to quarantine: its position on the page, from 0, the reason, and its JSON text.

    Without a position it is the whole page.

    `account_id` is the id of an account with a valid id and another invalid field. If that field is the status alone,
    with a value that is unknown (API 3), `unknown_status` is this value.
    """

    position: int | None
    reason: str
    payload: str
    account_id: str | None = None
    unknown_status: str | None = None


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
