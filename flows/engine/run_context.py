"""State that the parts of a run share: its resources, its counters, and the error that stops it."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from connectors.source.errors import Failure
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import BackoffPolicy, Send
from connectors.store.snapshot_bucket import SnapshotBucket
from connectors.warehouse.warehouse import Warehouse
from flows.engine.batches import AccountBatcher, Batch, BatchReport
from flows.engine.concurrency import Slots
from flows.reporting.words import Say
from models.checkpoint import Checkpoint, RunKind
from models.clock import Clock
from models.incremental import LOOKBACK_WINDOW, ClosedScan, Incremental, Post
from models.page_commit import PageCommit
from models.page_items import post_reader
from models.partition import Partition
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN


class ScanStore(Protocol):
    """Where scans land pages, and read the results of earlier scans."""

    async def land(self, landing: PageCommit) -> None:
        """Land a commit; after this returns, the next page may be requested."""
        ...

    async def checkpoints(
        self, resource: str, account_ids: Collection[str], run_kind: RunKind = "sync"
    ) -> Map[Partition, Checkpoint]:
        """Return the last checkpoint of this run kind, by partition of these accounts."""
        ...

    async def seen(self, scan_id: str) -> Collection[str]:
        """Return the ids of the items that an unfinished scan of an earlier run or attempt has received."""
        ...

    async def closed_scans(self, account_ids: Sequence[str]) -> Map[str, ClosedScan]:
        """Return the last closed scans of posts, by account."""
        ...

    async def known_posts(self, closed: Map[str, ClosedScan], *, older_than: datetime) -> Map[str, frozenset[str]]:
        """Return the posts published before `older_than` that these closed scans have seen, by account."""
        ...


@dataclass(frozen=True, slots=True)
class ScanResources:
    """The resources of scans, including time, randomness and ids. `warehouse` is where their pages land.

    `base_url` is the service's address, as normalized by `connectors.source.base_url.normalized`; None: the warehouse
    is not bound to a service. `max_wait` is in seconds.
    """

    send: Send
    warehouse: ScanStore
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    slots: Slots
    page_size: int = 50
    max_wait: float = 3600.0
    scan_expired: bool = False
    base_url: str | None = None
    policy: BackoffPolicy = field(default_factory=BackoffPolicy)
    mapping: Mapping = BUILT_IN


class BatchEngine(Protocol):
    """Scans batches of `least` to `most` accounts; only the last one may be smaller."""

    @property
    def least(self) -> int: ...  # noqa: D102

    @property
    def most(self) -> int: ...  # noqa: D102

    async def sync_batch(self, run: "RunContext", batch: Batch) -> BatchReport:
        """Scan a batch's accounts, and land an outcome for each of its partitions."""
        ...


@dataclass(frozen=True, slots=True)
class RunResources(ScanResources):
    """The resources of a run, in the process that writes the warehouse.

    `batches` scans batches of accounts on workers; None: this process scans them. `bucket` is where the snapshot is
    published in addition to its file on this machine.
    """

    warehouse: Warehouse
    batches: "BatchEngine | None" = None
    bucket: SnapshotBucket | None = None


@dataclass(slots=True)
class Counters:
    """The progress of a run. `waiting` is the number of scans that sleep before their next request.

    `items_left` is the number of items left in partitions of known length, `unknown` the number of open partitions of
    unknown length, `ended` the number of partitions that ended, with `ended_items` items. `cooldowns`: the end of each
    tenant scope's cooldown. `requests` includes retries.
    """

    accounts: int = 0
    accounts_done: int = 0
    catalogue_complete: bool = False
    pages: int = 0
    items: int = 0
    run_id: str | None = None
    retries: int = 0
    restarted: int = 0
    waiting: int = 0
    items_left: int = 0
    unknown: int = 0
    ended: int = 0
    ended_items: int = 0
    cooldowns: dict[str, datetime] = field(default_factory=dict)
    requests: int = 0

    def expect(self, items: int | None) -> None:
        """Add a partition with the number of its expected items; None if unknown."""
        if items is None:
            self.unknown += 1
        else:
            self.items_left += items

    def end(self, expected: int | None, items: int) -> None:
        """Mark a partition as ended with `items`; `expected` is the number passed to `expect`."""
        self.ended += 1
        self.ended_items += items
        if expected is None:
            self.unknown -= 1
        else:
            self.items_left -= max(expected - items, 0)


class Landed(NamedTuple):
    """The pages and items that a run has landed of a partition."""

    pages: int = 0
    items: int = 0


class RunStopped(Exception):  # noqa: N818 - the error is its attribute
    """The scan of a partition ends, because `error` stopped the run."""

    def __init__(self, error: Failure) -> None:
        super().__init__(str(error))
        self.error = error


class RequestsSpent(Exception):  # noqa: N818 - a limit that the user set, not an error
    """The run has made as many requests as it may."""


class StopSignal:
    """Set once, by an error that ends the run or only its media scans. It ends every sleep on it."""

    def __init__(self) -> None:
        self.error: Failure | None = None
        self._set = asyncio.Event()

    def set(self, error: Failure) -> None:
        """Set the signal; only the first error is kept."""
        if self.error is None:
            self.error = error
            self._set.set()

    def check(self) -> None:
        """Raise RunStopped if the signal is set."""
        if self.error is not None:
            raise RunStopped(self.error)

    async def wait(self) -> None:
        """Wait until the signal is set."""
        await self._set.wait()

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Sleep until the time is over or the signal is set."""
        waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(self._set.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class StoppableClock:
    """A clock whose sleeps end once the stop signal is set."""

    clock: Clock
    stop_signal: StopSignal

    def now(self) -> datetime:
        """Return the time of day, UTC."""
        return self.clock.now()

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep until the time is over or the signal is set."""
        await self.stop_signal.sleep(self.clock, seconds)


@dataclass(frozen=True, slots=True)
class ScanMode:
    """How a run scans posts; without `incremental` every scan is full.

    `lookback` is the window of recent scans.
    """

    lookback: timedelta = LOOKBACK_WINDOW
    incremental: Incremental | None = None


@dataclass(frozen=True, slots=True)
class ScanContext:
    """The state that the scans of one run share. `resumed_runs` are the interrupted runs that it resumes.

    `cooldowns`: the end of each tenant scope's cooldown, from earlier runs. `limited_by`: for each scope, the last
    error with which the API made this run wait.

    The result of a scan that began longer ago than `fresh_within` is out of date: such a scan is finished, and the
    partition is scanned again. `landed`: the pages and items of each partition that other attempts of this run have
    landed. `run_kind` selects the checkpoints. `mode`: how deep posts are scanned. `read_posts` reads the posts of a
    page's text, with the mapping in use in the warehouse.
    """

    run_id: str
    started_at: datetime
    resumed_runs: tuple[str, ...]
    cooldowns: Map[str, datetime]
    resources: ScanResources
    fresh_within: timedelta
    run_kind: RunKind = "sync"
    mode: ScanMode = field(default_factory=ScanMode)
    max_requests: int | None = None
    read_posts: Callable[[str], Sequence[Post]] = field(default_factory=lambda: post_reader(BUILT_IN))
    counters: Counters = field(default_factory=Counters)
    stop: StopSignal = field(default_factory=StopSignal)
    stop_media: StopSignal = field(default_factory=StopSignal)
    limited_by: dict[str, Failure] = field(default_factory=dict)
    landed: Map[Partition, Landed] = field(default_factory=dict)

    def budget(self, scope: str) -> RateLimitBudget:
        """Return this run's wait budget for a tenant scope, including a cooldown of an earlier run."""
        clock = self.resources.clock
        if scope in self.cooldowns:
            self.counters.cooldowns[scope] = self.cooldowns[scope]
        return RateLimitBudget.seeded(
            scope, self.resources.max_wait, self.cooldowns.get(scope), now=clock.now(), monotonic=clock.monotonic()
        )


@dataclass(frozen=True, slots=True)
class RunContext(ScanContext):
    """A run in progress: `batcher` has the accounts that it listed, `say` shows a line to the user.

    `accept_removals`: the user confirms that accounts missing from this run's catalogue are removed.
    """

    resources: RunResources
    accept_removals: bool = False
    batcher: AccountBatcher = field(kw_only=True)
    say: Say = field(kw_only=True)
