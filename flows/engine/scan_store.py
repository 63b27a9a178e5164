"""What scans of a batch read and write: the warehouse in this process, or a log in the shared store on a worker."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from models.checkpoint import Checkpoint, RunKind
from models.incremental import ClosedScan
from models.page_commit import PageCommit
from models.partition import Partition


class ScanStore(Protocol):
    """Where pages land, and what earlier scans left there."""

    async def land(self, landing: PageCommit) -> None:
        """Take a landing; when this returns, the next page may be asked for."""
        ...

    async def checkpoints(
        self, resource: str, account_ids: Collection[str], run_kind: RunKind = "sync"
    ) -> Mapping[Partition, Checkpoint]:
        """Return the last checkpoint by this kind of run of each partition of these accounts that has one."""
        ...

    async def seen(self, scan_id: str) -> Collection[str]:
        """Return the ids of what an unfinished scan of an earlier run, or attempt, has received."""
        ...

    async def closed_scans(self, account_ids: Sequence[str]) -> Mapping[str, ClosedScan]:
        """Return the last closed scans of posts, by account."""
        ...

    async def known_posts(
        self, closed: Mapping[str, ClosedScan], *, older_than: datetime
    ) -> Mapping[str, frozenset[str]]:
        """Return the posts published before `older_than` that these closed scans have seen, by account."""
        ...
