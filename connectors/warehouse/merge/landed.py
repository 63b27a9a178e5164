"""What a merge is given: landed pages, in the order of their landing numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from models.partition import Partition
from models.runs import Outcome

# A batch has about this many bytes: large enough that statements cost little, small enough that two fit into memory. An
# outcome counts like this many, because accounts that are skipped land tens of thousands of them without a page.
BATCH_BYTES = 16 * 1024 * 1024
OUTCOME_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ScanEnd:
    """What closed a scan: its last page (complete), or known posts (recent). The scan began at `started_at`.

    `pages`, `items`, `read_to`, `order_broken_by` and `full_share` are those of its checkpoint. `had_expired_token`:
    the account's token had expired when one of its pages was received, so that its lists may lack items.
    """

    state: Literal["complete", "recent"]
    started_at: datetime
    pages: int
    items: int
    read_to: datetime | None = None
    order_broken_by: str | None = None
    full_share: float | None = None
    had_expired_token: bool = False


@dataclass(frozen=True, slots=True)
class LandedPage:
    """A landing: a page of a scan as it was received, what the page closed, and outcomes that landed with it.

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
    end: ScanEnd | None = None
    outcomes: tuple[Outcome, ...] = ()


def cut_batch(inbox: Iterable[LandedPage], most_bytes: int = BATCH_BYTES) -> Sequence[LandedPage]:
    """Return the beginning of the inbox that is merged together; empty if the inbox is.

    It ends before the first page of a partition that an earlier page of the batch closed: within a batch, everything
    that was listed counts before any scan is closed.
    """
    batch: list[LandedPage] = []
    closed: set[Partition] = set()
    size = 0
    for page in inbox:
        if batch and (size + _size(page) > most_bytes or (page.body and page.partition in closed)):
            break
        batch.append(page)
        size += _size(page)
        if page.end is not None:
            closed.add(page.partition)
    return batch


def _size(page: LandedPage) -> int:
    return len(page.body) + OUTCOME_BYTES * len(page.outcomes)
