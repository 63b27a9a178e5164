"""The client against recorded malformed responses: each has its expected error, and the next valid response is read."""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient, Timeouts
from connectors.source.endpoints import Response, accounts_request
from connectors.source.errors import ApiError, Deferred, Disposition
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import BackoffPolicy, fetch_with_retry
from tests.clocks import VirtualClock
from tests.conformance.large_responses import SWOLLEN, sent
from tests.conformance.outcomes import OUTCOMES, Outcome, Then
from tests.conformance.recorded_responses import (
    FOLDER,
    GOOD_ITEMS,
    GOOD_TRACE,
    Server,
    answer_of,
    head_of,
    heard,
    names,
    served,
)

pytestmark = pytest.mark.anyio
KEY = "cnry7Zq4f1e9bXw"
TRACE = "01J9ZK4TQ8M3V5X7B2C6D0FGHN"
REQUEST = accounts_request(None, 50)
# Generous, because the machine may be busy; nothing here is expected to time out.
PATIENT = Timeouts(connect=60.0, read=60.0, total=60.0)
HASTY = Timeouts(connect=60.0, read=60.0, total=0.3)
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
BUDGET = 300.0
PAUSES: dict[str | None, Callable[[bytes], int] | None] = {None: None, "head": head_of, "answer": answer_of}
NEXT = {
    Then.AGAIN: {Disposition.RETRY},
    Then.HOLD: {Disposition.WAIT, Disposition.RETRY},
    Then.DEFER: {Disposition.WAIT},
    Then.SKIP: {Disposition.SKIP},
    Then.RESTART: {Disposition.RESTART},
    Then.STOP: {Disposition.STOP},
}
KNOWN = [pytest.param(one, id=str(one)) for one in OUTCOMES]


class Clock(VirtualClock):
    """A clock an hour ahead of the recorded servers; `sleep` only advances it."""

    def __init__(self) -> None:
        super().__init__(since=datetime(2026, 11, 21, 21, tzinfo=UTC))

    async def sleep(self, seconds: float) -> None:
        await heard()
        await super().sleep(seconds)


@asynccontextmanager
async def _met(
    one: Outcome, clock: Clock, patience: Timeouts | None = None
) -> AsyncIterator[tuple[ApiClient, Server, Server]]:
    """Connect the client to the server, and start a second host that must receive no request."""
    key, patience = SecretStr(KEY), patience or (HASTY if one.timed else PATIENT)
    async with (
        served(sent(one.name), closes=one.closes, pause=PAUSES[one.pause]) as (server, elsewhere),
        ApiClient(server.url, key, clock=clock, timeout=patience, certificates=NO_CERTIFICATES) as client,
    ):
        yield client, server, elsewhere


def _is_good(response: Response) -> bool:
    return (response.page.items, response.correlation_id) == (GOOD_ITEMS, GOOD_TRACE)


def _assert_told(error: ApiError, one: Outcome) -> None:
    trace = None if one.lost else TRACE
    assert (error.code, error.status, error.correlation_id) == (one.code, one.status, trace)
    assert (error.retry_after, error.outcome) == (one.wait, one.kind)
    assert error.disposition in NEXT[one.then]
    assert (error.__cause__, error.__context__) == (None, None)
    assert str(error).isprintable()
    assert len(error.message) <= 200
    assert KEY not in repr(vars(error))


@pytest.mark.parametrize("one", KNOWN)
async def test_each_response_has_its_outcome_and_the_next_is_read(one: Outcome) -> None:
    async with _met(one, Clock()) as (client, server, elsewhere):
        if one.then is Then.LANDS:
            response = await client.send(REQUEST)
            trace = GOOD_TRACE if one.name in SWOLLEN else TRACE
            assert (response.page.items, response.correlation_id) == (one.items, None if one.lost else trace)
        else:
            with pytest.raises(ApiError) as caught:
                await client.send(REQUEST)
            _assert_told(caught.value, one)
        await server.quiet()
        assert _is_good(await client.send(REQUEST))
        assert (len(server.heads), elsewhere.heads) == (2, [])


@pytest.mark.parametrize("one", [known for known in KNOWN if known.values[0].then is not Then.LANDS])  # type: ignore[union-attr]
async def test_the_next_request_follows_the_table(one: Outcome) -> None:
    clock, holds = Clock(), list[float]()

    async def on_wait(scope: str, until: datetime) -> None:
        assert scope == REQUEST.scope
        holds.append((until - clock.now()).total_seconds())

    async with _met(one, clock) as (client, server, elsewhere):
        scope = RateLimitBudget(REQUEST.scope, BUDGET)
        policy = BackoffPolicy()
        asking = fetch_with_retry(
            client.send,
            REQUEST,
            scope,
            policy=policy,
            clock=clock,
            random=lambda: 0.5,
            failures=Counter(),
            slot=nullcontext,
            sleep=clock.sleep,
            on_wait=on_wait,
        )
        if one.then in (Then.AGAIN, Then.HOLD):
            assert _is_good(await asking)
        else:
            with pytest.raises(Deferred if one.then is Then.DEFER else ApiError):
                await asking
        asked = 2 if one.then in (Then.AGAIN, Then.HOLD) else 1
        assert (len(server.heads), elsewhere.heads) == (asked, [])
        # A Retry-After blocks the scope for at least that long; without one, the scope is not blocked.
        least = max(one.wait or 0.0, policy.least_wait)
        if one.then is Then.HOLD:
            assert len(holds) == 1
            assert scope.cause is not None
            assert scope.cause.code == one.code
            assert least <= holds[0] <= least * 1.1 + policy.most_jitter
            assert clock.passed >= least
        elif one.then is Then.DEFER:
            assert clock.passed == 0
        else:
            assert (holds, clock.passed) == ([], 0.25 if one.then is Then.AGAIN else 0.0)


async def test_a_response_cut_inside_a_chunk_fails_after_the_read_timeout() -> None:
    (one,) = (outcome for outcome in OUTCOMES if str(outcome) == "chunk_size_bad, head first")
    began = asyncio.get_running_loop().time()
    async with _met(one, Clock(), Timeouts(connect=60.0, read=0.1, total=1.5)) as (client, _, _):
        with pytest.raises(ApiError):
            await client.send(REQUEST)
    assert asyncio.get_running_loop().time() - began < 1.0


def test_every_recording_is_listed_and_described() -> None:
    result = {one.name for one in OUTCOMES}
    assert result == names() | SWOLLEN.keys()
    assert len({str(one) for one in OUTCOMES}) == len(OUTCOMES)
    for name in names():
        first, newline, rest = (FOLDER / f"{name}.http").read_bytes().partition(b"\n")
        assert first.startswith(b"# "), name
        assert newline, name
        assert rest, name
