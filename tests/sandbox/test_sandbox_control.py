"""What can be changed while the sandbox runs: days, limits and faults; and its keys."""

from collections.abc import Callable
from typing import Any

import pytest

from connectors.sandbox.contract import CATALOG_SCOPE
from connectors.sandbox.settings import RateLimit
from tests.clocks import VirtualClock
from tests.sandbox.asgi_client import Asker

Build = Callable[..., Asker]


@pytest.mark.parametrize(("elapsed", "wait"), [(0.0, 10), (7.5, 3)])
def test_waiting_for_the_returned_time_is_enough(build: Build, clock: VirtualClock, elapsed: float, wait: int) -> None:
    asker = build()
    asker.sandbox.limiter.configure({CATALOG_SCOPE: RateLimit(3, 10)})
    assert [asker.get().status for _ in range(3)] == [200, 200, 200]
    clock.passed += elapsed
    refused = asker.get()
    assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", str(wait))
    clock.passed += wait
    assert asker.get().status == 200


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        ({}, [500, 200, 200, 200, 200]),
        ({"times": 2}, [500, 500, 200, 200, 200]),
        ({"operation": "accounts", "times": None}, [500, 200, 200, 200, 200]),
        ({"surface": "stories", "times": 3}, [200, 200, 500, 200, 500]),
        ({"account_id": 1, "times": None}, [200, 200, 200, 500, 500]),
    ],
)
def test_a_fault_affects_the_next_requests_that_match(asker: Asker, fault: dict[str, Any], statuses: list[int]) -> None:
    first, second = asker.account_id(0), asker.account_id(1)
    if "account_id" in fault:
        fault = {**fault, "account_id": second}
    asker.control("POST", "faults", {"code": "api_internal_error", **fault})
    answers = [asker.get(), *(asker.media(one, kind) for one in (first, second) for kind in ("posts", "stories"))]
    assert [answer.status for answer in answers] == statuses
    left = asker.control("GET", "faults").json()
    asked = fault.get("times", 1)
    assert [one["times"] for one in left] == ([] if asked == statuses.count(500) else [asked and asked - 2])
    assert asker.control("DELETE", "faults").json() == []
    assert asker.get().status == 200
