"""How deep the posts of a batch's accounts are scanned: to the last page, or to known posts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from connectors.warehouse.runs.closed_scans import full_scans_due
from connectors.warehouse.warehouse import Warehouse
from flows.engine.run_context import ScanMode, ScanStore
from models.clock import Clock
from models.incremental import (
    LOOKBACK_WINDOW,
    ClosedScan,
    FullReason,
    Incremental,
    SyncMode,
    least_age,
    why_full,
)

# The number of accounts whose known posts are read in one query.
_ACCOUNTS_PER_QUERY = 50


@dataclass(frozen=True, slots=True)
class Depth:
    """How deep one scan of posts reads: to the last page, because of `full`, or to `known` posts.

    `known_seq` is the landing number of the last closed scan, which has seen them. Only known posts published at least
    `lookback` before the scan began can end it.
    """

    full: FullReason | None = FullReason.FIRST
    known_seq: int | None = None
    known: frozenset[str] = frozenset()
    lookback: timedelta = LOOKBACK_WINDOW

    @property
    def full_share(self) -> float | None:
        """Return the part of the refresh interval after which the next full scan is due, if this one completes."""
        return 1.0 if self.full is FullReason.DUE else None


async def scan_mode(
    warehouse: Warehouse, clock: Clock, mode: SyncMode, *, lookback: timedelta, every: timedelta, budget: int | None
) -> ScanMode:
    """Return how a run scans posts. `budget` limits the requests of full scans; None: all that are due are made."""
    if mode == "full_refresh":
        return ScanMode(lookback)
    now = clock.now()
    due = await warehouse.read(full_scans_due, now=now, every=every)
    return ScanMode(lookback, Incremental(now, every, least_age(due, budget)))


@dataclass(slots=True)
class Depths:
    """The depths of a batch's scans of posts. Known posts are read for some accounts at a time, in order."""

    warehouse: ScanStore
    clock: Clock
    mode: ScanMode
    account_ids: Sequence[str]
    _places: Mapping[str, int] = field(default_factory=dict)
    _closed: Mapping[str, ClosedScan] = field(default_factory=dict)
    _full: dict[str, FullReason | None] = field(default_factory=dict)
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    async def begin(self) -> None:
        """Read the accounts' last closed scans."""
        self._places = {one: index for index, one in enumerate(self.account_ids)}
        self._closed = await self.warehouse.closed_scans(self.account_ids)
        mode = self.mode.incremental
        self._full = {one: why_full(self._closed.get(one), mode) for one in self.account_ids}

    async def load_known_posts(self, account_id: str) -> None:
        """Load the known posts of an account and of the next ones. Must be called for each account, in order."""
        index = self._places.get(account_id)
        if index is None or index % _ACCOUNTS_PER_QUERY:
            return
        some = [one for one in self.account_ids[index : index + _ACCOUNTS_PER_QUERY] if self._full[one] is None]
        if some:
            closed = {one: self._closed[one] for one in some}
            older_than = self.clock.now() - self.mode.lookback
            self._known.update(await self.warehouse.known_posts(closed, older_than=older_than))

    def take(self, account_id: str) -> Depth:
        """Return the depth of an account's scan of posts, and release its known posts."""
        known = self._known.pop(account_id, frozenset())
        full = self._full.get(account_id, FullReason.FIRST)
        known_seq = None if full is not None else self._closed[account_id].seq
        return Depth(full, known_seq, known, self.mode.lookback)
