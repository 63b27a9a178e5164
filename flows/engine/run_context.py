"""State that the parts of a run share: its resources, its counters, and the error that stops it."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from connectors.source.errors import Failure
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import BackoffPolicy, Send
from connectors.store.snapshot_bucket import SnapshotBucket
from connectors.warehouse.warehouse import Warehouse
from flows.engine.concurrency import Slots
from flows.reporting.words import Say
from models.checkpoint import Checkpoint, RunKind
from models.clock import Clock
from models.incremental import FULL_REFRESH_EVERY, LOOKBACK_WINDOW, ClosedScan, Incremental, Post
from models.page_commit import PageCommit
from models.page_items import post_reader
from models.partition import Partition
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN

if TYPE_CHECKING:
    from flows.engine.batches import AccountBatcher, BatchEngine


class ScanStore(Protocol):
    """Where pages land, and what earlier scans left there."""

    async def land(self, landing: PageCommit) -> None:
        """Take a landing; when this returns, the next page may be asked for."""
        ...

    async def checkpoints(
        self, resource: str, account_ids: Collection[str], run_kind: RunKind = "sync"
    ) -> Map[Partition, Checkpoint]:
        """Return the last checkpoint by this kind of run of each partition of these accounts that has one."""
        ...

    async def seen(self, scan_id: str) -> Collection[str]:
        """Return the ids of what an unfinished scan of an earlier run, or attempt, has received."""
        ...

    async def closed_scans(self, account_ids: Sequence[str]) -> Map[str, ClosedScan]:
        """Return the last closed scans of posts, by account."""
        ...

    async def known_posts(self, closed: Map[str, ClosedScan], *, older_than: datetime) -> Map[str, frozenset[str]]:
        """Return the posts published before `older_than` that these closed scans have seen, by account."""
        ...


@dataclass(frozen=True, slots=True)
class ScanResources:
    """All that scans work with; time, randomness and ids among them. `warehouse` is where their pages land.

    `base_url` names the service, in the one spelling of `connectors.source.base_url.normalized`; None binds to none.
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


@dataclass(frozen=True, slots=True)
class RunResources(ScanResources):
    """All that a run works with, in the process that writes the warehouse.

    `batches` scans batches of accounts elsewhere; None: this process does. `bucket` is where the snapshot is
    published, besides its file on this machine.
    """

    warehouse: Warehouse
    batches: "BatchEngine | None" = None
    bucket: SnapshotBucket | None = None


@dataclass(slots=True)
class Counters:
    """How far a run is. `waiting` counts scans that sleep before they ask again.

    `items_left` are the items that partitions of known length still have, `unknown` the open partitions of unknown
    length, `ended` those that ended, with `ended_items`. `cooldowns`: until when each tenant scope must be left alone.
    `requests` were made, retries included. A run of full scans without a limit of requests would have made
    `requests_saved` more, an incremental one about `requests_savable` fewer.
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
    requests_saved: int = 0
    requests_savable: float = 0

    def expect(self, items: int | None) -> None:
        """Count a partition in, with as many items as its last full scan found; None: there was none."""
        if items is None:
            self.unknown += 1
        else:
            self.items_left += items

    def end(self, expected: int | None, items: int) -> None:
        """Count a partition out, after `items` of those expected (`expect`)."""
        self.ended += 1
        self.ended_items += items
        if expected is None:
            self.unknown -= 1
        else:
            self.items_left -= max(expected - items, 0)


class Landed(NamedTuple):
    """What a run has landed of a partition."""

    pages: int = 0
    items: int = 0


class RunStopped(Exception):  # noqa: N818 - the error is its cause
    """A partition is not scanned on, because `error` stopped the run."""

    def __init__(self, error: Failure) -> None:
        super().__init__(str(error))
        self.error = error


class RequestsSpent(Exception):  # noqa: N818 - the run was asked to make no more
    """No request is left of those that the run may make."""


class StopSignal:
    """Set once, by an error that ends the run, or only its media scans; ends every sleep on it."""

    def __init__(self) -> None:
        self.error: Failure | None = None
        self._set = asyncio.Event()

    def set(self, error: Failure) -> None:
        """Stop; the first error is the one that counts."""
        if self.error is None:
            self.error = error
            self._set.set()

    def check(self) -> None:
        """Raise RunStopped when stopped."""
        if self.error is not None:
            raise RunStopped(self.error)

    async def wait(self) -> None:
        """Wait until the signal is set."""
        await self._set.wait()

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Sleep, but no longer than until the signal is set."""
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
        """Return seconds that never run backwards."""
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until the signal is set."""
        await self.stop_signal.sleep(self.clock, seconds)


@dataclass(frozen=True, slots=True)
class ScanMode:
    """How a run scans posts; without `incremental` every scan is full.

    `lookback` is the window of recent scans, `every` the interval of full ones.
    """

    lookback: timedelta = LOOKBACK_WINDOW
    every: timedelta = FULL_REFRESH_EVERY
    incremental: Incremental | None = None


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What the scans of one run share: `resumed_runs` are the interrupted runs it resumes.

    `cooldowns`: when each tenant scope may be asked again, as earlier runs know it.

    `limited_by` keeps, for each scope, the last error with which the API made this run wait. The end of a scan that
    began longer ago than `fresh_within` says too little of today: such a scan is ended, and the partition scanned
    again. `landed`: the pages and items of each partition that other attempts of this run have landed. `run_kind`:
    whose checkpoints it goes by. `mode`: how deep it scans posts; `read_posts` reads them from a
    page's text, by the mapping in force in the warehouse.
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
        """Return this run's wait budget for a tenant scope; a cooldown of an earlier run counts."""
        clock = self.resources.clock
        if scope in self.cooldowns:
            self.counters.cooldowns[scope] = self.cooldowns[scope]
        return RateLimitBudget.seeded(
            scope, self.resources.max_wait, self.cooldowns.get(scope), now=clock.now(), monotonic=clock.monotonic()
        )


@dataclass(frozen=True, slots=True)
class RunContext(ScanContext):
    """One run under way: `batcher` has the accounts that it listed, `say` takes lines for a person.

    With `accept_removals` a person vouches for this run's own scan of the catalogue.
    """

    resources: RunResources
    accept_removals: bool = False
    batcher: "AccountBatcher" = field(kw_only=True)
    say: Say = field(kw_only=True)
