"""The rate of requests against limits of the whole key and of single accounts, on a virtual clock."""

import asyncio
import math
from collections import defaultdict
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
from flows.engine.dispatcher import Dispatcher
from flows.engine.resources import RunResources
from flows.engine.scan import Scan
from flows.reporting.findings import list_findings
from flows.reporting.progress import Progress
from models.api import Page
from models.checkpoint import Checkpoint
from models.feeds import media
from models.runs import RunState, Severity
from models.selection import ChosenAccount
from tests.api.asked import Asked
from tests.api.faults import refuse
from tests.api.listed import ListedApi
from tests.clocks import START, VirtualClock
from tests.harness.loop import Deadlock, VirtualLoop, run_process
from tests.runs import request, synced

Limit = Callable[[str, float], bool]
"""Returns whether the request of a rate-limit scope is served at a time."""

PAGE = Page((), None, frozenset())
REFUSED = ApiError("accounts.media.list", "http_429", "wait", status=429, retry_after=1)
UNAVAILABLE = ApiError("accounts.media.list", "http_503", "no", status=503)


@dataclass
class Bucket:
    """A limit of the key by tokens."""

    per_second: float
    most: float
    tokens: float = math.inf
    at: float = 0.0

    def __call__(self, _: str, now: float) -> bool:
        self.tokens, self.at = min(self.most, self.tokens + (now - self.at) * self.per_second), now
        admitted = self.tokens >= 1
        self.tokens -= admitted
        return admitted


@dataclass
class Window:
    """A limit of the key in a sliding window; with `seconds` of the latency it is one of the requests in flight."""

    requests: int
    seconds: float
    served: list[float] = field(default_factory=list)

    def __call__(self, _: str, now: float) -> bool:
        self.served = [at for at in self.served if at > now - self.seconds]
        admitted = len(self.served) < self.requests
        self.served += [now] * admitted
        return admitted


async def landed() -> None:
    pass


def run(
    limit: Limit,
    accounts: int = 60,
    pages: int = 5,
    latency: float = 0.004,
    landing: Callable[[], Any] = landed,
    refusal: ApiError = REFUSED,
) -> tuple[RequestRate, float, float]:
    """Scan with 16 requests in flight; return the rate, the seconds, and how many were refused for each page.

    By default a refused account waits for a second. `landing` is awaited with each page.
    """
    loop, random, progress = VirtualLoop(0.0, Random(1)), Random(1), Progress()
    loop.most_steps = 10_000_000

    async def ask(request: ApiRequest) -> Response:
        await asyncio.sleep(random.random() * latency)
        served = limit(request.scope, loop.time())
        await asyncio.sleep(random.random() * latency)
        if not served:
            raise refusal
        return Response(request.operation, PAGE, None)

    async def scan(number: str) -> None:
        checkpoint = Checkpoint(media(number, "posts"), "", "", START, START)
        budget = RateLimitBudget(account_scope(number), math.inf)
        one = Scan(ChosenAccount(number), checkpoint, checkpoint, Attempts(50), budget)
        for _ in range(pages):
            async with dispatcher.page(one):
                await landing()

    async def scan_all() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(accounts):
                group.create_task(scan(str(number)))

    clock: Any = SimpleNamespace(now=lambda: START, monotonic=loop.time, sleep=asyncio.sleep)
    nowhere: Any = SimpleNamespace(land=lambda _: landed())
    resources = RunResources(ask, nowhere, clock, random.random, str, progress)
    dispatcher = Dispatcher(request(Path(), concurrency=16).settings, resources)
    run_process(loop, scan_all())
    return dispatcher.rate, loop.time(), progress.refused / (accounts * pages)


def test_few_requests_are_refused_by_limits_of_the_key() -> None:
    for limit, options, least, refused, slower in (
        (Bucket(60, 10), {"pages": 30, "latency": 0.1}, 1790 / 60, 0.05, 1.1),
        (Bucket(1, 3), {"accounts": 20}, 97, 0.45, 1.1),
        (Window(100, 10), {"pages": 20}, 110, 0.11, 1.5),
        (Window(8, 0.1), {"pages": 30, "latency": 0.1}, 1800 / 80, 0.05, 1.7),
    ):
        _, seconds, share = run(limit, **options)
        assert share <= refused
        assert seconds <= slower * least


def test_a_limit_of_the_key_that_says_503_fails_no_scan() -> None:
    # As nginx does, which says no time to wait. A page is refused more often than it may fail.
    _, seconds, refused = run(Bucket(0.3, 1), accounts=40, pages=2, refusal=UNAVAILABLE)
    assert refused > 6
    assert seconds < 400


# The requests a second of each account, and those that are limited, if not all are.
@pytest.mark.parametrize(("requests", "limited"), [(10_000, None), (10, "3"), (10, None), (1, None)])
@pytest.mark.parametrize("latency", [0.004, 0.2])
def test_limits_of_accounts_do_not_slow_the_others(requests: int, limited: str | None, latency: float) -> None:
    own = defaultdict[str, Window](lambda: Window(requests, 1))

    def limit(scope: str, now: float) -> bool:
        return (limited is not None and scope != account_scope(limited)) or own[scope](scope, now)

    rate, seconds, _ = run(limit, pages=20, latency=latency)
    assert (rate.base, rate.allowed, rate.per_second(seconds)) == (None, None, None)


@pytest.mark.anyio
@pytest.mark.parametrize("fixed", [None, 2.0])
async def test_a_run_is_complete_and_says_what_the_service_allows(tmp_path: Path, fixed: float | None) -> None:
    clock, gateway, refused = VirtualClock(), Bucket(1, 3), refuse("rate_limiter_unavailable", retry_after=2)
    service = ListedApi(
        accounts=20, posts=5, clock=clock, fault=lambda _: None if gateway("", clock.passed) else refused
    )
    report = await synced(tmp_path, service, requests_per_second=fixed)
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


@pytest.mark.anyio
async def test_a_run_stops_when_nothing_has_answered_for_as_long_as_it_may_wait(tmp_path: Path) -> None:
    service = ListedApi(8)

    def away(asked: Asked) -> Exception | None:
        assert service.clock.passed < 1000, "it may wait 100 seconds"
        return None if asked.number is None else ConnectionResetError("away")

    service.fault = away
    report = await synced(tmp_path, service)
    assert {group.error_code for group in report.failure_groups} == {"connection_reset"}
    assert service.clock.passed > 100


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


def test_time_in_which_nothing_was_to_be_sent_does_not_lower_the_rate() -> None:
    rate = RequestRate()
    for number in range(40):
        rate = rate.observe(f"account {number}", limited=False, now=number / 20)
    rate = limited(rate, ("a", 2.0), ("b", 2.0))
    for number in range(6):
        rate = rate.observe(f"account {number}", limited=False, now=2.1 + number / 20)
    assert limited(rate, ("c", 82.4)).allowed == pytest.approx(13, abs=1)


def test_what_a_kill_loses_is_bounded_however_long_landing_takes() -> None:
    asked = Window(1000, math.inf)
    with pytest.raises(Deadlock):
        run(asked, landing=asyncio.Event().wait)
    assert len(asked.served) == 2 * 16
