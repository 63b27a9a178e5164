"""The rate of requests against limits of the whole key and of single accounts, on a virtual clock."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.source.errors import ApiError
from connectors.source.messages import ApiRequest, Response, account_scope
from connectors.source.request_rate import RequestRate
from connectors.source.waits import Attempts, RateLimitBudget
from flows.engine.requests import Requests
from flows.engine.resources import RunResources
from flows.engine.scan import Scan
from flows.pipeline import run_sync
from flows.reporting.findings import list_findings
from flows.reporting.progress import Progress
from models.api import Page
from models.checkpoint import Checkpoint, ScopeCooldown
from models.feeds import media
from models.runs import RunState, Severity
from models.selection import ChosenAccount
from tests.api.faults import refuse
from tests.api.listed import ListedApi
from tests.clocks import START, VirtualClock
from tests.harness.loop import Deadlock, VirtualLoop, run_process
from tests.runs import open_run_resources, request

Limit = Callable[[float], bool]

PAGE = Page((), None, frozenset())
REFUSED = ApiError("accounts.media.list", "http_429", "wait", status=429, retry_after=1)


@dataclass
class Bucket:
    per_second: float
    burst: float
    tokens: float = 0.0
    at: float = -1e9

    def __call__(self, now: float) -> bool:
        self.tokens, self.at = min(self.burst, self.tokens + (now - self.at) * self.per_second), now
        admitted = self.tokens >= 1
        self.tokens -= admitted
        return admitted


@dataclass
class Window:
    """A sliding window; with `seconds` of the latency it is a limit of the requests in flight."""

    requests: int
    seconds: float
    served: list[float] = field(default_factory=list)

    def __call__(self, now: float) -> bool:
        self.served = [at for at in self.served if at > now - self.seconds]
        admitted = len(self.served) < self.requests
        self.served += [now] * admitted
        return admitted


@dataclass
class Run:
    """A run with 16 requests in flight, in which an account that is refused waits for a second."""

    limits: tuple[Limit, ...]
    accounts: int = 60
    pages: int = 5
    latency: float = 0.004
    limited: range = range(10_000)
    own: Callable[[], Limit] | None = None
    lands: bool = True
    rate: RequestRate = field(default_factory=RequestRate)
    refused: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        loop = VirtualLoop(0.0, Random(1))
        loop.most_steps = 10_000_000
        clock: Any = SimpleNamespace(now=lambda: START, monotonic=loop.time, sleep=asyncio.sleep)
        self._random, progress, asked = Random(1), Progress(), request(Path(), concurrency=16)
        nowhere: Any = SimpleNamespace(land=self._land)
        resources = RunResources(self._ask, nowhere, clock, self._random.random, str, self.rate, progress)
        self._now, self._own = loop.time, dict[str, Limit]()
        self._requests = Requests(asked.settings, resources)
        run_process(loop, self._scan_all())
        self.rate, self.seconds, self.refused = self._requests.rate, loop.time(), progress.refused
        loop.close()

    @property
    def refused_share(self) -> float:
        return self.refused / (self.accounts * self.pages)

    async def _scan_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(self.accounts):
                group.create_task(self._scan(number))

    async def _scan(self, number: int) -> None:
        if self.own is not None:
            self._own[str(number)] = self.own()
        checkpoint = Checkpoint(media(str(number), "posts"), "", "", START, START)
        budget = RateLimitBudget(account_scope(str(number)), math.inf)
        scan = Scan(ChosenAccount(str(number)), checkpoint, checkpoint, Attempts(50), budget)
        for _ in range(self.pages):
            async with self._requests.page(scan):
                if not self.lands:
                    await asyncio.Event().wait()

    async def _ask(self, request: ApiRequest) -> Response:
        account = request.scope.partition(":")[2]
        limits = self.limits if self.own is None else (self._own[account],)
        await asyncio.sleep(self._random.random() * self.latency)
        served = int(account) not in self.limited or all(limit(self._now()) for limit in limits)
        await asyncio.sleep(self._random.random() * self.latency)
        if not served:
            raise REFUSED
        return Response(request.operation, PAGE, None)

    async def _land(self, _: ScopeCooldown) -> None:
        pass


def bucket() -> Bucket:
    return Bucket(60, 10)


@pytest.mark.parametrize(
    ("limits", "options", "least", "refused", "slower"),
    [
        ((bucket(),), {"pages": 30, "latency": 0.1}, 1790 / 60, 0.05, 1.1),
        ((Bucket(1, 3),), {"accounts": 20, "pages": 5}, 97, 0.45, 1.1),
        ((Window(100, 10),), {"pages": 20}, 110, 0.11, 1.5),
        ((Window(8, 0.1),), {"pages": 30, "latency": 0.1}, 1800 / 80, 0.05, 1.7),
    ],
)
def test_few_requests_are_refused_by_a_limit_of_the_key(
    limits: tuple[Limit, ...], options: dict[str, Any], least: float, refused: float, slower: float
) -> None:
    run = Run(limits, **options)
    assert run.refused_share <= refused
    assert run.seconds <= slower * least


@pytest.mark.parametrize(
    ("limited", "own"),
    [
        (range(0), None),
        (range(3, 4), lambda: Bucket(10, 1)),
        # All of them at the same time, as the API limits accounts.
        (range(60), lambda: Window(10, 1)),
        (range(60), lambda: Window(1, 1)),
    ],
)
@pytest.mark.parametrize("latency", [0.004, 0.2])
def test_limits_of_accounts_do_not_slow_the_others(
    limited: range, own: Callable[[], Limit] | None, latency: float
) -> None:
    run = Run((), pages=20, limited=limited, own=own, latency=latency)
    assert (run.rate.base, run.rate.allowed, run.rate.per_second(run.seconds)) == (None, None, None)


@pytest.mark.anyio
@pytest.mark.parametrize("fixed", [None, 2.0])
async def test_a_run_is_complete_and_says_what_the_service_allows(tmp_path: Path, fixed: float | None) -> None:
    clock, gateway, refused = VirtualClock(), Bucket(1, 3), refuse("rate_limiter_unavailable", retry_after=2)
    service = ListedApi(accounts=20, posts=5, clock=clock, fault=lambda _: None if gateway(clock.passed) else refused)
    async with open_run_resources(tmp_path, service, rate=RequestRate(fixed)) as resources:
        report = await run_sync(request(tmp_path), resources)
    assert report.state is RunState.COMPLETE, "each account alone would use up its tries"
    found = {finding.code: finding for finding in list_findings(report)}
    rate = found["requests_per_second"]
    assert rate.severity is (Severity.WARNING if fixed else Severity.INFORMATION)
    assert rate.text.startswith("The service allows about ")
    assert ("GRAMHOUSE_REQUESTS_PER_SECOND is 2" if fixed else "; pace kept") in rate.text


def limited(rate: RequestRate, *answers: tuple[str, float]) -> RequestRate:
    for scope, now in answers:
        rate = rate.observe(scope, limited=True, now=now)
    return rate


def test_a_rate_is_kept_from_the_limits_of_two_scopes_in_a_moment_until_there_are_none_for_long() -> None:
    rate = RequestRate()
    for number in range(50):
        rate = rate.observe(f"account {number}", limited=False, now=number / 50)
    assert limited(rate, ("a", 1.0), ("a", 1.1)).per_second(1.1) is None, "one account alone"
    assert limited(rate, ("a", 1.0), ("b", 2.1)).per_second(2.1) is None, "not in the same moment"
    rate = limited(rate, ("a", 1.0), ("b", 1.0))
    # As many as were served in the last second, and then one per time in which all have been refused.
    assert rate.per_second(1.0) == pytest.approx(50)
    assert limited(rate, ("c", 3.0)).per_second(3.0) == pytest.approx(1 / 2.02)
    assert limited(rate, ("c", 20.0)).per_second(20.0) == 1 / 5
    assert rate.observe("c", limited=False, now=1.1).per_second(1.1) == pytest.approx(50, abs=5)
    assert rate.per_second(90.9) is not None
    assert rate.per_second(91.1) is None


def test_a_rate_that_does_not_help_is_given_up() -> None:
    """Half of the accounts are refused, however slow the run is."""
    rate, bases = RequestRate(), list[float | None]()
    for number in range(400):
        rate = rate.observe(f"account {number}", limited=number % 2 == 0, now=number / 100)
        bases.append(rate.base)
    assert bases[10] is not None
    assert bases[-1] is None


def test_what_a_kill_loses_is_bounded_however_long_landing_takes() -> None:
    asked = Window(1000, math.inf)
    with pytest.raises(Deadlock):
        Run((asked,), lands=False)
    assert len(asked.served) == 2 * 16
