from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from connectors.source.endpoints import ACCOUNTS, ApiRequest, Response, accounts_request, feed_request
from connectors.source.errors import ApiError, Deferred, client_error
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import TRIES, fetch_with_retry
from models.api import MediaPage
from models.feeds import FEEDS
from tests.source.test_source_endpoints import refused as refusal

pytestmark = pytest.mark.anyio
START = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = accounts_request(None, 50)
PAGE = Response(ACCOUNTS, MediaPage(1, None, frozenset(), ""), None)


class World:
    """A virtual clock, a scripted API, and a log of what happened when."""

    def __init__(self, *script: ApiError | Response, share: float = 0.0, request: ApiRequest = REQUEST) -> None:
        self.script: Iterator[ApiError | Response] = iter(script)
        self.request = request
        self.share = share
        self.elapsed = 0.0
        self.in_slot = False
        self.book: list[tuple[str, float]] = []
        self.cooldowns: list[tuple[str, datetime]] = []

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

    async def on_wait(self, scope: str, resume_after: datetime) -> None:
        self.book.append(("hold", self.elapsed))
        self.cooldowns.append((scope, resume_after))

    async def fetch_with_retry(
        self,
        wait: RateLimitBudget | None = None,
        tries: int = TRIES,
        uses_try: Callable[[ApiError], bool] = lambda _: True,
    ) -> Response:
        return await fetch_with_retry(
            self.send,
            self.request,
            wait or RateLimitBudget(self.request.scope, max_wait=300),
            clock=self,
            random=lambda: self.share,
            failures=Counter(),
            slot=self.slot,
            sleep=self.sleep,
            on_wait=self.on_wait,
            uses_try=uses_try,
            about={},
            host="api.example:8443",
            tries=tries,
        )

    def sent_at(self) -> list[float]:
        return [at for what, at in self.book if what == "send"]


async def test_a_cooldown_lands_before_the_wait_and_the_retry() -> None:
    world = World(refusal(429, retry_after="30"), PAGE)
    assert await world.fetch_with_retry() is PAGE
    assert world.book == [("send", 0.0), ("hold", 0.25), ("sleep", 30.0), ("send", 30.25)]
    assert world.cooldowns == [("account_catalog", START + timedelta(seconds=30.25))]


async def test_rate_limits_are_bounded_by_the_budget_and_not_by_tries() -> None:
    world = World(*[refusal(429, retry_after="10")] * 100)
    wait = RateLimitBudget(REQUEST.scope, max_wait=95)
    with pytest.raises(Deferred) as caught:
        await world.fetch_with_retry(wait)
    assert len(world.sent_at()) == 10
    assert wait.waited == 90
    assert caught.value.resume_after == world.now() + timedelta(seconds=10)
    assert caught.value.error is not None
    assert caught.value.error.code == "http_429"
    assert world.cooldowns[-1][1] == caught.value.resume_after


async def test_a_wait_beyond_the_budget_defers_at_once_but_is_written_down() -> None:
    world = World(refusal(429, retry_after="301"))
    with pytest.raises(Deferred) as caught:
        await world.fetch_with_retry()
    assert world.book == [("send", 0.0), ("hold", 0.25)]
    assert world.cooldowns == [("account_catalog", START + timedelta(seconds=301.25))]
    assert caught.value.error is not None
    assert caught.value.error.code == "http_429"
    assert (caught.value.scope, caught.value.resume_after) == ("account_catalog", world.cooldowns[0][1])


async def test_a_cooldown_of_an_earlier_process_is_waited_for() -> None:
    world = World(PAGE)
    resume_after = START + timedelta(seconds=45)
    wait = RateLimitBudget.seeded(REQUEST.scope, 60, resume_after, now=world.now(), monotonic=world.monotonic())
    await world.fetch_with_retry(wait)
    assert world.book == [("sleep", 45.0), ("send", 45.0)]
    assert wait.waited == 45


async def test_a_cooldown_of_an_earlier_process_defers_when_it_is_too_long() -> None:
    world = World(PAGE)
    resume_after = START + timedelta(seconds=61)
    wait = RateLimitBudget.seeded(REQUEST.scope, 60, resume_after, now=world.now(), monotonic=world.monotonic())
    with pytest.raises(Deferred) as caught:
        await world.fetch_with_retry(wait)
    assert world.book == []
    assert (caught.value.error, caught.value.resume_after) == (None, resume_after)


async def test_a_retry_releases_its_slot_and_does_not_hold_the_scope() -> None:
    world = World(client_error(ACCOUNTS, "timeout", ""), refusal(502), PAGE, share=0.5)
    assert await world.fetch_with_retry() is PAGE
    assert world.book == [("send", 0.0), ("sleep", 0.25), ("send", 0.5), ("sleep", 0.5), ("send", 1.25)]
    assert world.cooldowns == []


async def test_an_unavailable_service_that_names_a_time_holds_the_scope_and_counts() -> None:
    world = World(*[refusal(503, retry_after="7")] * 3)
    with pytest.raises(ApiError):
        await world.fetch_with_retry(tries=3)
    assert world.sent_at() == [0.0, 7.25, 14.5]
    # The last cooldown applies to the scope's other requests.
    assert len(world.cooldowns) == 3


async def test_refusals_that_use_up_no_try_are_waited_for_in_full_and_do_not_lengthen_waits() -> None:
    world = World(*[refusal(503, retry_after="7")] * 8, *[refusal(429)] * 3, PAGE)
    assert await world.fetch_with_retry(tries=3, uses_try=lambda error: not error.is_limit) is PAGE
    assert [seconds for what, seconds in world.book if what == "sleep"] == [7.0] * 8 + [1.0] * 3
    assert not refusal(503).is_limit


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
