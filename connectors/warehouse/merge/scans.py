"""What a scan that ended says of its partition: how deep it read, and whether posts were in order. No IO."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from zlib import crc32

from models.checkpoint import Checkpoint, ScanState
from models.incremental import PROOFS, PROOFS_AGAIN
from models.landing import Landing

NEWEST_FIRST = "newest_first"


@dataclass(frozen=True, slots=True)
class ClosedPartition:
    """The last full scan of a partition and the last recent one after it: a row of core.closed_scans."""

    resource: str
    account_id: str
    surface: str
    seq: int
    began_seq: int
    complete_at: datetime
    recent_at: datetime | None
    covered_from: datetime | None
    pages: int
    items: int
    order_proofs: int
    item_order: str | None
    order_broken_by: str | None
    full_share: float
    removals_undecided_since: datetime | None


def is_overtaken(before: ClosedPartition | None, page: Landing, end: Checkpoint) -> bool:
    """Return whether a scan that ended with this page says nothing.

    Another scan of its partition was closed after it began: its first pages are older than that result. Or it is a
    recent scan of a partition that has never been scanned in full.
    """
    if before is None:
        return end.state is ScanState.RECENT
    return before.seq > page.began_seq


def close_partition(
    before: ClosedPartition | None, page: Landing, end: Checkpoint, *, is_undecided: bool
) -> ClosedPartition:
    """Return the partition after a scan that was not overtaken ended with this page.

    `is_undecided`: it missed records, and rejected some or found different ones with one id.
    """
    undecided_since = None if before is None else before.removals_undecided_since
    if is_undecided:
        undecided_since = undecided_since or page.received_at
    if end.state is ScanState.RECENT and before is not None:
        return replace(
            before,
            seq=page.seq,
            began_seq=page.began_seq,
            recent_at=page.received_at,
            covered_from=end.read_to,
            removals_undecided_since=undecided_since,
        )
    if not is_undecided and not end.had_expired_token:
        undecided_since = None
    proofs = PROOFS if before is None else before.order_proofs
    if end.order_broken_by is not None:
        proofs = PROOFS_AGAIN
    elif end.read_to is not None:
        proofs = max(proofs - 1, 0)
    is_ordered = proofs == 0 and end.read_to is not None
    return ClosedPartition(
        **asdict(page.partition),
        seq=page.seq,
        began_seq=page.began_seq,
        complete_at=page.received_at,
        recent_at=None,
        covered_from=None,
        pages=end.pages,
        items=end.items,
        order_proofs=proofs,
        item_order=NEWEST_FIRST if is_ordered else None,
        order_broken_by=end.order_broken_by,
        full_share=share_of(page.partition.account_id) if end.full_share is None else end.full_share,
        removals_undecided_since=undecided_since,
    )


def share_of(account_id: str) -> float:
    """Return the part of the refresh interval after which an account's first full scan is due again, in (0, 1].

    It differs so that the full scans of all accounts are spread.
    """
    return (crc32(account_id.encode()) + 1) / 2**32
