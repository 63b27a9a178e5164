"""Batches of accounts: divides listed accounts into batches while the catalogue is still being listed."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flows.reporting.progress import Progress
from models.feeds import SURFACES
from models.partition import CATALOGUE, Partition, media
from models.selection import ChosenAccount

# A batch has 1/80 of the accounts listed so far. The first batches are one page each, and a million accounts result in
# 530 batches, or 900 if each page has a single account: below the thousand task runs that a Prefect server records
# without loss.
_SHARE = 80

# The size of a batch if more accounts are known at once, as in a backfill.
_FULL_BATCH = 250


@dataclass(frozen=True, slots=True)
class Batch:
    """Accounts of a run, of which the first has the number `first`, from 1."""

    first: int
    accounts: tuple[ChosenAccount, ...]

    def __str__(self) -> str:
        due = {surface for account in self.accounts for surface in account.surfaces}
        what = " and ".join(surface for surface in SURFACES if surface in due)
        return f"{what}, accounts {self.first} to {self.first + len(self.accounts) - 1}"


class AccountBatcher:
    """Divides listed accounts into batches, and knows which of their partitions have no outcome yet.

    An account that is listed more than once is scanned once per run. If the batcher `waits_for_all`, they are one
    batch, which is formed when all are listed: then they are scanned in their order. None follows the last batch.
    """

    def __init__(self, progress: Progress, *, has_catalogue: bool = True, waits_for_all: bool = False) -> None:
        """Count the accounts in the progress of a run, of which the catalogue may be a partition, too."""
        self.waiting: list[ChosenAccount] = []
        self.batches = asyncio.Queue[Batch | None]()
        self._progress = progress
        self._waits_for_all = waits_for_all
        # The surfaces of each account that have no outcome; the catalogue's account and surface are "".
        self._due: dict[str, tuple[str, ...]] = {"": ("",)} if has_catalogue else {}

    @property
    def listed(self) -> int:
        """Return the number of accounts so far."""
        return self._progress.accounts

    def add(self, accounts: Iterable[ChosenAccount]) -> None:
        """Add listed accounts."""
        for account in accounts:
            if account.account_id not in self._due:
                self._due[account.account_id] = account.surfaces
                self.waiting.append(account)
                self._progress.accounts += 1
        if not self._waits_for_all and len(self.waiting) >= self.listed // _SHARE:
            self._form_batches(max(_FULL_BATCH, self.listed // _SHARE))

    def close(self) -> None:
        """Signal that all accounts are listed: the remaining ones become a batch, however small."""
        self._progress.catalogue_complete = True
        self._form_batches(max(1, len(self.waiting)))
        self.batches.put_nowait(None)

    def _form_batches(self, most: int) -> None:
        before = self.listed - len(self.waiting)
        for first in range(0, len(self.waiting), most):
            self.batches.put_nowait(Batch(before + first + 1, tuple(self.waiting[first : first + most])))
        self.waiting.clear()

    def settle(self, partition: Partition) -> None:
        """Note that a partition has its outcome."""
        left = self._due[partition.account_id]
        self._due[partition.account_id] = tuple(surface for surface in left if surface != partition.surface)

    def unsettled(self) -> Iterator[Partition]:
        """Yield the listed partitions that have no outcome."""
        for account_id, surfaces in list(self._due.items()):
            for surface in surfaces:
                yield media(account_id, surface) if account_id else CATALOGUE
