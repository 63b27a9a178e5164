"""One page: what is tried again, when, with which limit, and what holds the whole scope; on a virtual clock."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.source.endpoints import ACCOUNTS, ApiRequest, Response, accounts_request, feed_request
from connectors.source.errors import ApiError, Deferred, Disposition, Failure, client_error
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import Attempts, Verdict, decide, fetch_with_retry
from models.api import MediaPage
from models.feeds import FEEDS
from tests.source.test_source_endpoints import refused as refusal

pytestmark = pytest.mark.anyio
START = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = accounts_request(None, 50)
PAGE = Response(ACCOUNTS, MediaPage(1, None, frozenset(), b"", ""), None)
TIMEOUT = client_error(ACCOUNTS, "timeout", "")


def error(disposition: Disposition, retry_after: float | None = None) -> ApiError:
    failure = Failure(operation=ACCOUNTS, code="x", disposition=disposition, outcome="failed", message="", hint="")
    return ApiError(failure, retry_after)


def delays(disposition: Disposition, attempts: tuple[int, ...], share: float) -> list[float]:
    waits = disposition is Disposition.WAIT
    verdicts = [decide(error(disposition), attempt, lambda: share, waits=waits) for attempt in attempts]
    assert {(verdict.retries, verdict.whole_scope) for verdict in verdicts} == {(True, waits)}
    return [verdict.delay for verdict in verdicts]


def test_delays_grow_and_are_capped() -> None:
    assert delays(Disposition.RETRY, (1, 2, 3, 4, 5), 1.0) == [0.5, 1, 2, 4, 8]
    assert delays(Disposition.RETRY, (3,), 0.0) == [0.0]
    assert delays(Disposition.WAIT, (0, 1, 2, 3, 7, 9999), 0.0) == [1, 1, 2, 4, 60, 60]


def test_tries_are_all_attempts_and_permanent_errors_are_not_retried() -> None:
    for disposition in (Disposition.SKIP, Disposition.RESTART, Disposition.STOP):
        assert decide(error(disposition, 5), 1, lambda: 0.5, waits=False) == Verdict(retries=False)
    assert decide(error(Disposition.RETRY), 6, lambda: 0.5, waits=False) == Verdict(retries=False)
    # The Retry-After of the last failure applies to the scope's other requests.
    last = decide(error(Disposition.RETRY, 100), 6, lambda: 0.5, waits=False)
    assert last == Verdict(retries=False, delay=102.5, whole_scope=True)
    assert decide(error(Disposition.WAIT, 3), 10**6, lambda: 0.5, waits=True).retries


@settings(deadline=None, derandomize=True)
@given(st.booleans(), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_an_announced_wait_is_never_shortened_and_holds_the_scope(waits: bool, wait: float, share: float) -> None:  # noqa: FBT001
    verdict = decide(error(Disposition.RETRY, wait), 1, lambda: share, waits=waits)
    assert (verdict.retries, verdict.whole_scope) == (True, True)
    least = max(1.0, wait)
    assert least <= verdict.delay <= least + min(least / 10, 5) + 1e-6


class World:
    """A virtual clock, a scripted API, and a log of what happened when; `limits` are those of the requests."""

    def __init__(self, *script: ApiError | Response, share: float = 0.0, request: ApiRequest = REQUEST) -> None:
        self.script = iter(script)
        self.request = request
        self.share = share
        self.elapsed = 0.0
        self.in_slot = False
        self.book: list[tuple[str, float]] = []
        self.limits: list[int] = []
        self.attempts = Attempts(50)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return 1000.0 + self.elapsed

    async def sleep(self, seconds: float) -> None:
        assert not self.in_slot, "slept while holding the caller's slot"
        self.book.append(("sleep", seconds))
        self.elapsed += seconds

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        self.in_slot = True
        try:
            yield
        finally:
            self.in_slot = False

    async def send(self, request: ApiRequest) -> Response:
        assert request is self.request
        assert self.in_slot
        self.book.append(("send", self.elapsed))
        self.elapsed += 0.25
        message = next(self.script)
        if isinstance(message, ApiError):
            raise message
        return message

    def make_request(self, limit: int) -> ApiRequest:
        self.limits.append(limit)
        return self.request

    async def on_wait(self, scope: str, resume_after: datetime) -> None:
        assert scope == self.request.scope
        self.book.append(("hold", (resume_after - START).total_seconds()))

    async def fetch_with_retry(
        self, budget: RateLimitBudget | None = None, is_limit_of_key: Callable[[ApiError], bool] = lambda _: False
    ) -> Response:
        return await fetch_with_retry(
            self.send,
            self.make_request,
            self.attempts,
            budget or RateLimitBudget(self.request.scope, max_wait=300),
            clock=self,
            random=lambda: self.share,
            slot=self.slot,
            sleep=self.sleep,
            on_wait=self.on_wait,
            is_outage=lambda: False,
            is_limit_of_key=is_limit_of_key,
            about={},
            host="api.example:8443",
        )


@pytest.mark.parametrize(
    ("share", "script", "book"),
    [
        # A cooldown lands before the wait and the retry.
        (0.0, [refusal(429, retry_after="30"), PAGE], [("send", 0), ("hold", 30.25), ("sleep", 30), ("send", 30.25)]),
        # A retry does not hold the scope.
        (
            0.5,
            [TIMEOUT, refusal(502), PAGE],
            [("send", 0), ("sleep", 0.25), ("send", 0.5), ("sleep", 0.5), ("send", 1.25)],
        ),
        # A service that names a time holds the scope.
        (0.0, [refusal(500, retry_after="7"), PAGE], [("send", 0), ("hold", 7.25), ("sleep", 7), ("send", 7.25)]),
    ],
)
async def test_what_is_waited_for(
    share: float, script: list[ApiError | Response], book: list[tuple[str, float]]
) -> None:
    world = World(*script, share=share)
    assert await world.fetch_with_retry() is PAGE
    assert world.book == book


async def test_an_unavailable_service_that_names_a_time_uses_up_the_tries() -> None:
    world = World(*[refusal(500, retry_after="7")] * 6)
    with pytest.raises(ApiError):
        await world.fetch_with_retry()
    assert [at for what, at in world.book if what == "send"] == [0.0, 7.25, 14.5, 21.75, 29.0, 36.25]
    # The last cooldown applies to the scope's other requests.
    assert world.book[-1] == ("hold", 43.5)


def stored(seconds: float, max_wait: float) -> RateLimitBudget:
    """Return the budget of a scope whose cooldown an earlier process stored."""
    resume_after = START + timedelta(seconds=seconds)
    return RateLimitBudget.seeded(REQUEST.scope, max_wait, resume_after, now=START, monotonic=1000.0)


@pytest.mark.parametrize(
    ("script", "budget", "book", "resume_after", "code"),
    [
        # A wait beyond the budget defers at once, but is written down.
        ([refusal(429, retry_after="301")], None, [("send", 0), ("hold", 301.25)], 301.25, "http_429"),
        # The waits are bounded, and the tries are not.
        (
            [refusal(429, retry_after="10")] * 9,
            RateLimitBudget(REQUEST.scope, max_wait=25),
            [
                *[("send", 0), ("hold", 10.25), ("sleep", 10), ("send", 10.25), ("hold", 20.5), ("sleep", 10)],
                *[("send", 20.5), ("hold", 30.75)],
            ],
            30.75,
            "http_429",
        ),
        # The cooldown of an earlier process.
        ([PAGE], stored(61, 60), [], 61, None),
    ],
)
async def test_a_wait_that_is_too_long_defers(
    script: list[ApiError | Response],
    budget: RateLimitBudget | None,
    book: list[tuple[str, float]],
    resume_after: float,
    code: str | None,
) -> None:
    world = World(*script)
    with pytest.raises(Deferred) as caught:
        await world.fetch_with_retry(budget)
    assert world.book == book
    assert (caught.value.scope, caught.value.resume_after) == (REQUEST.scope, START + timedelta(seconds=resume_after))
    assert (caught.value.error and caught.value.error.code) == code


async def test_a_cooldown_of_an_earlier_process_is_waited_for() -> None:
    world, budget = World(PAGE), stored(45, 60)
    await world.fetch_with_retry(budget)
    assert world.book == [("sleep", 45.0), ("send", 45.0)]
    assert budget.waited == 45


def test_a_cooldown_is_never_shortened_and_ends_with_the_calendar() -> None:
    budget = RateLimitBudget("account_catalog", max_wait=100)
    for seconds in (30.0, 5.0):
        budget.start_cooldown(seconds, monotonic=1000)
    assert [budget.due(monotonic) for monotonic in (1000, 1029, 1031)] == [30, 1, 0]
    assert budget.resume_after(START, 1010) == START + timedelta(seconds=20)
    for seconds in (1e15, math.inf):
        budget.start_cooldown(seconds, monotonic=0)
        assert budget.resume_after(START, 0) == datetime(9999, 12, 30, tzinfo=UTC)
    for over in (START - timedelta(days=1), None):
        assert RateLimitBudget.seeded("s", 60, over, now=START, monotonic=7).due(7) == 0


async def test_refusals_by_a_limit_of_the_key_are_waited_for_and_are_no_tries() -> None:
    world = World(*[refusal(503, retry_after="7")] * 8, *[refusal(429), refusal(503), refusal(529)], PAGE)
    assert await world.fetch_with_retry(is_limit_of_key=lambda error: error.is_limit) is PAGE
    assert [seconds for what, seconds in world.book if what == "sleep"] == [7.0] * 8 + [1.0] * 3
    assert set(world.limits) == {50}
    # Its waits are limited, as those of any limit.
    with pytest.raises(Deferred):
        await World(*[refusal(503)] * 400).fetch_with_retry(is_limit_of_key=lambda error: error.is_limit)


@pytest.mark.parametrize(
    ("failures", "begun", "limits"),
    [
        ([refusal(500)] * 6, 50, [50, 50, 25, 12, 6, 5]),
        ([refusal(504), TIMEOUT, TIMEOUT, PAGE, refusal(500), PAGE], 50, [50, 50, 25, 12, 12, 12]),
        ([client_error(ACCOUNTS, "body_too_large_response", "", status=200)] * 6, 20, [20, 20, 10, 5, 5, 5]),
        ([TIMEOUT] * 6, 3, [3, 3, 3, 3, 3, 3]),
        # It was not the size of the page.
        ([client_error(ACCOUNTS, "connection_failed", "")] * 6, 50, [50] * 6),
        ([refusal(401), refusal(403), refusal(503), refusal(302), refusal(404), PAGE], 50, [50] * 6),
    ],
)
async def test_less_is_asked_for_before_giving_up(
    failures: list[ApiError | Response], begun: int, limits: list[int]
) -> None:
    world = World(*failures)
    world.attempts.limit = begun
    for _ in range(failures.count(PAGE)):
        await world.fetch_with_retry()
    if PAGE not in failures:
        with pytest.raises(ApiError):
            await world.fetch_with_retry()
    assert world.limits == limits
    assert (world.attempts.reduced_by is None) == (limits == [begun] * 6)


async def test_the_log_names_partition_and_host_of_a_retry(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    busy = client_error("accounts.media.list", "timeout", "no answer", status=None, correlation_id=None)
    for request, name in (
        (REQUEST, "the account catalogue"),
        (feed_request(FEEDS["posts"], "0A", None, 50), "posts of account 0a"),
    ):
        await World(busy, PAGE, request=request).fetch_with_retry()
        assert caplog.messages[-1].startswith(f"{name} at api.example:8443: accounts.media.list: timeout")
        assert "; retry in " in caplog.messages[-1]
