"""The client against recorded malformed responses: each has its expected error, and the next valid response is read."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient, Timeouts
from connectors.source.endpoints import accounts_request
from connectors.source.errors import ApiError, Disposition
from connectors.source.responses import Response
from tests.clocks import VirtualClock
from tests.conformance.large_responses import SWOLLEN, sent
from tests.conformance.outcomes import OUTCOMES, Outcome, Then
from tests.conformance.recorded_responses import (
    FOLDER,
    GOOD_ITEMS,
    GOOD_TRACE,
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
PAUSES: dict[str | None, Callable[[bytes], int] | None] = {None: None, "head": head_of, "answer": answer_of}
NEXT = {
    Then.AGAIN: {Disposition.RETRY},
    Then.HOLD: {Disposition.WAIT, Disposition.RETRY},
    Then.DEFER: {Disposition.WAIT},
    Then.SKIP: {Disposition.SKIP},
    Then.RESTART: {Disposition.RESTART},
    Then.STOP: {Disposition.STOP},
}
# An hour ahead of the recorded servers.
CLOCK = VirtualClock(since=datetime(2026, 11, 21, 21, tzinfo=UTC))


def _is_good(response: Response) -> bool:
    return (len(response.page.records), response.correlation_id) == (GOOD_ITEMS, GOOD_TRACE)


def _assert_told(error: ApiError, one: Outcome) -> None:
    trace, failure = None if one.lost else TRACE, error.failure
    assert (failure.code, failure.status, failure.correlation_id) == (one.code, one.status, trace)
    assert (error.retry_after, failure.outcome) == (one.wait, one.kind)
    assert failure.disposition in NEXT[one.then]
    assert (error.__cause__, error.__context__) == (None, None)
    assert str(error).isprintable()
    assert len(failure.message) <= 200
    assert KEY not in repr(vars(error))


@pytest.mark.parametrize("one", OUTCOMES, ids=str)
async def test_each_response_has_its_outcome_and_the_next_is_read(one: Outcome) -> None:
    key, patience = SecretStr(KEY), HASTY if one.timed else PATIENT
    async with (
        served(sent(one.name), closes=one.closes, pause=PAUSES[one.pause]) as (server, elsewhere),
        ApiClient(server.url, key, clock=CLOCK, timeout=patience) as client,
    ):
        if one.then is Then.LANDS:
            response = await client.send(REQUEST)
            trace = GOOD_TRACE if one.name in SWOLLEN else TRACE
            assert (len(response.page.records), response.correlation_id) == (one.items, None if one.lost else trace)
        else:
            with pytest.raises(ApiError) as caught:
                await client.send(REQUEST)
            _assert_told(caught.value, one)
        await heard(60)
        assert _is_good(await client.send(REQUEST))
        assert (len(server.heads), elsewhere.heads) == (2, [])


def test_every_recording_is_listed_and_described() -> None:
    result = {one.name for one in OUTCOMES}
    assert result == names() | SWOLLEN.keys()
    assert len({str(one) for one in OUTCOMES}) == len(OUTCOMES)
    for name in names():
        first, newline, rest = (FOLDER / f"{name}.http").read_bytes().partition(b"\n")
        assert first.startswith(b"# "), name
        assert newline, name
        assert rest, name
