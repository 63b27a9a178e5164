"""The client against recorded malformed responses: each has its expected error, and the next valid response is read."""

from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient, Timeouts
from connectors.source.endpoints import accounts_request
from connectors.source.errors import ApiError
from tests.clocks import VirtualClock
from tests.conformance.recorded import CASES, GOOD_ITEMS, GOOD_TRACE, Case, heard, served

pytestmark = pytest.mark.anyio
KEY = "cnry7Zq4f1e9bXw"
REQUEST = accounts_request(None, 50)
# Generous, because the machine may be busy; nothing here is expected to time out.
PATIENT = Timeouts(connect=60.0, read=60.0, total=60.0)
HASTY = Timeouts(connect=60.0, read=60.0, total=0.3)
NEXT = {"again": {"retry"}, "hold": {"wait", "retry"}, "defer": {"wait"}, "skip": {"skip"}, "restart": {"restart"}}
# An hour ahead of the recorded servers.
CLOCK = VirtualClock(since=datetime(2026, 11, 21, 21, tzinfo=UTC))


def _assert_told(error: ApiError, one: Case) -> None:
    failure = error.failure
    assert (failure.code, failure.status, failure.correlation_id) == (one.code, one.status, one.trace)
    assert (error.retry_after, failure.outcome) == (one.wait, one.kind)
    assert failure.disposition.value in NEXT[one.then]
    assert (error.__cause__, error.__context__) == (None, None)
    assert str(error).isprintable()
    assert len(failure.message) <= 200
    assert KEY not in repr(vars(error))


@pytest.mark.parametrize("one", CASES, ids=str)
async def test_each_response_has_its_outcome_and_the_next_is_read(one: Case) -> None:
    key, patience = SecretStr(KEY), HASTY if one.timed else PATIENT
    async with (
        served(one) as (server, elsewhere),
        ApiClient(server.url, key, clock=CLOCK, timeout=patience) as client,
    ):
        if one.then == "lands":
            response = await client.send(REQUEST)
            assert (len(response.page.records), response.correlation_id) == (one.items, one.trace)
        else:
            with pytest.raises(ApiError) as caught:
                await client.send(REQUEST)
            _assert_told(caught.value, one)
        await heard(60)
        response = await client.send(REQUEST)
        assert (len(response.page.records), response.correlation_id) == (GOOD_ITEMS, GOOD_TRACE)
        assert (len(server.heads), elsewhere.heads) == (2, [])
