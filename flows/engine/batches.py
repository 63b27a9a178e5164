"""Batches of accounts: divides listed accounts into batches while the catalogue is still being listed."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from models.feeds import SURFACES

# A batch has 1/80 of the accounts listed so far. The first batches are one page each, and a million accounts result in
# 530 batches, or 900 if each page has a single account: below the thousand task runs that a Prefect server records
# without loss.
_SHARE = 80

# The size of a batch if more accounts are known at once, as in a backfill.
_FULL_BATCH = 250


@dataclass(frozen=True, slots=True)
class ListedAccount:
    """An account that a run scans: its id as the API writes it, whether its token has expired, the surfaces to scan.

    An account with an `unknown_status` is not scanned, and neither is one that `is_forgotten`; its id is its mark
    (models.erasure.py).
    """

    listed_as: str
    expired: bool
    surfaces: tuple[str, ...] = SURFACES
    username: str | None = None
    unknown_status: str | None = None
    is_forgotten: bool = False

    @property
    def account_id(self) -> str:
        """Return the id as it is stored; ids are case-insensitive (API 2)."""
        return self.listed_as.lower()


@dataclass(frozen=True, slots=True)
class Batch:
    """Accounts number `first` to `last` of a run, counted from 1."""

    first: int
    accounts: tuple[ListedAccount, ...]

    @property
    def last(self) -> int:
        """Return the number of the last account."""
        return self.first + len(self.accounts) - 1

    def __str__(self) -> str:
        due = {surface for account in self.accounts for surface in account.surfaces}
        what = " and ".join(surface for surface in SURFACES if surface in due)
        return f"{what}, accounts {self.first} to {self.last}"


@dataclass(slots=True)
class AccountBatcher:
    """Divides listed accounts into batches. Those that are scanned `in_turn` are large; only the last may be smaller.

    An account that is listed more than once is scanned once per run. At the end of the run, the ledger must have
    `expected_outcomes` outcomes of these accounts.
    """

    in_turn: bool = False
    listed: int = 0
    expected_outcomes: int = 0
    waiting: list[ListedAccount] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    _is_closed: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, accounts: Iterable[ListedAccount]) -> None:
        """Add listed accounts."""
        for account in accounts:
            if account.account_id not in self._known:
                self._known.add(account.account_id)
                self.waiting.append(account)
                self.listed += 1
                self.expected_outcomes += len(account.surfaces)
        self._changed.set()

    def close(self) -> None:
        """Signal that all accounts are listed: the remaining ones become a batch, however small."""
        self._is_closed = True
        self._changed.set()

    def take(self) -> Batch | None:
        """Return the next batch, or None if there are not enough accounts for one yet."""
        share = self.listed // _SHARE
        enough, most = max(1, share), max(_FULL_BATCH, share)
        if self.in_turn:
            enough = most = _FULL_BATCH
        if len(self.waiting) < (1 if self._is_closed else enough):
            return None
        first = self.listed - len(self.waiting) + 1
        accounts, self.waiting = tuple(self.waiting[:most]), self.waiting[most:]
        return Batch(first, accounts)

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield batches while accounts are being listed, until all are in a batch."""
        while True:
            while (batch := self.take()) is not None:
                yield batch
            if self._is_closed:
                return
            await self._changed.wait()
            self._changed.clear()
