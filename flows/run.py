"""What the parts of a run share: its means, its counters, and the error that stops it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from collections.abc import Mapping as Map
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from connectors.source.asking import Send, ask
from connectors.source.backoff import BackoffPolicy
from connectors.source.endpoints import ApiRequest, Response
from connectors.source.errors import Failure
from connectors.source.scopes import ScopeWait
from connectors.warehouse.writer import Warehouse
from flows.scan_depth import ScanMode
from flows.slots import Slots
from models.clock import Clock
from models.incremental import Post
from models.landing import Landing, ScopeHold
from models.mapping import Mapping
from models.mapping_built_in import BUILT_IN
from models.post_times import post_reader
from models.walk import Lane


@dataclass(frozen=True, slots=True)
class Means:
    """All that a run works with; time, randomness and ids among them.

    `base_url` names the service, in the one spelling of `connectors.source.address.normalized`; None binds to none.
    """

    send: Send
    warehouse: Warehouse
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    slots: Slots
    page_size: int = 50
    max_wait: float = 3600.0
    walk_expired: bool = False
    base_url: str | None = None
    policy: BackoffPolicy = field(default_factory=BackoffPolicy)
    mapping: Mapping = BUILT_IN


@dataclass(slots=True)
class Counters:
    """How far a run is. `waiting` counts scans that sleep before they ask again.

    `items_left` are the items that partitions of known length still have, `unknown` the open partitions of unknown
    length, `ended` those that ended, with `ended_items`. `cooldowns`: until when each tenant scope must be left alone.
    `requests` were made, retries included; as many as `spared` a run of full scans alone would have made besides, and
    about as many as `sparable` an incremental one would not have made.
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
    spared: int = 0
    sparable: float = 0

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


_NOTHING: Map[str, object] = MappingProxyType({})


class Halted(Exception):  # noqa: N818 - the error is its cause
    """A partition is not walked on, because `error` stopped the run."""

    def __init__(self, error: Failure) -> None:
        super().__init__(str(error))
        self.error = error


class RequestsSpent(Exception):  # noqa: N818 - the run was asked to make no more
    """No request is left of those that the run may make."""


class Brake:
    """Set once, by an error that ends the run, or only its media walks; whoever sleeps wakes up to it."""

    def __init__(self) -> None:
        self.error: Failure | None = None
        self._pulled = asyncio.Event()

    def pull(self, error: Failure) -> None:
        """Stop; the first error is the one that counts."""
        if self.error is None:
            self.error = error
            self._pulled.set()

    def check(self) -> None:
        """Raise Halted when stopped."""
        if self.error is not None:
            raise Halted(self.error)

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Sleep, but no longer than until the brake is pulled."""
        waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(self._pulled.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _BrakedClock:
    clock: Clock
    brake: Brake

    def now(self) -> datetime:
        return self.clock.now()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.brake.sleep(self.clock, seconds)


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run under way: `carried_on` are the interrupted runs it takes over, `holds` promises to wait.

    `told` keeps, scope by scope, the error by which the API last told this run to wait. The end of a walk that
    began longer ago than `fresh_within` says too little of today: such a walk is ended, and walked again. `lane`: whose
    checkpoints it goes by. With `accept_removals` a person vouches for this run's own scan of the catalogue. `mode`:
    how deep it scans posts; `read_posts` reads them from a page's text, by the mapping in force in the warehouse.
    """

    run_id: str
    started_at: datetime
    carried_on: tuple[str, ...]
    holds: Map[str, datetime]
    means: Means
    fresh_within: timedelta
    lane: Lane = "sync"
    accept_removals: bool = False
    mode: ScanMode = field(default_factory=ScanMode)
    max_requests: int | None = None
    read_posts: Callable[[str], Sequence[Post]] = field(default_factory=lambda: post_reader(BUILT_IN))
    counters: Counters = field(default_factory=Counters)
    stop: Brake = field(default_factory=Brake)
    stop_media: Brake = field(default_factory=Brake)
    told: dict[str, Failure] = field(default_factory=dict)

    def scope_wait(self, scope: str) -> ScopeWait:
        """Begin this run's waiting for a tenant scope, with what an earlier run was told."""
        clock = self.means.clock
        if scope in self.holds:
            self.counters.cooldowns[scope] = self.holds[scope]
        return ScopeWait.seeded(
            scope, self.means.max_wait, self.holds.get(scope), now=clock.now(), monotonic=clock.monotonic()
        )

    async def ask(
        self,
        request: ApiRequest,
        scope_wait: ScopeWait,
        brake: Brake,
        *,
        slot: bool,
        pages: int = 0,
        about: Map[str, object] = _NOTHING,
    ) -> Response:
        """Ask for one page through all waits and retries; `slot` says whether the caller holds a place.

        A caller that holds one waits for a request slot, too; `pages` is how many its scan has landed, `about` what
        the log says of that scan.
        Raises ApiError, Deferred, Halted once `brake` is pulled, and RequestsSpent.
        """
        means = self.means
        asked = False

        async def send(request: ApiRequest) -> Response:
            nonlocal asked
            async with means.slots.requests.one(pages) if slot else nullcontext():
                brake.check()
                if self.max_requests is not None and self.counters.requests >= self.max_requests:
                    raise RequestsSpent
                self.counters.retries += asked
                asked = True
                self.counters.requests += 1
                return await means.send(request)

        async def remember(scope: str, resume_after: datetime, error: Failure) -> None:
            self.told[scope] = error
            self.counters.cooldowns[scope] = resume_after
            await means.warehouse.land(Landing(hold=ScopeHold(scope, resume_after, means.clock.now())))

        return await ask(
            send,
            request,
            scope_wait,
            policy=means.policy,
            clock=_BrakedClock(means.clock, brake),
            random=means.random,
            park=lambda: self._parked(brake, slot=slot),
            on_wait=remember,
            about=about,
            host=(means.base_url or "").partition("://")[2],
        )

    @asynccontextmanager
    async def _parked(self, brake: Brake, *, slot: bool) -> AsyncIterator[None]:
        brake.check()
        self.counters.waiting += 1
        try:
            if slot:
                async with self.means.slots.parked_outside():
                    yield
            else:
                yield
        finally:
            self.counters.waiting -= 1
