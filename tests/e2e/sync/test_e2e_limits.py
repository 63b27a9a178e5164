"""Rate limits: every Retry-After is honoured, also by the next process, and other accounts continue meanwhile."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from connectors.sandbox.settings import RateLimit
from tests.api.faults import Rule, refuse
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import EIGHT_ACCOUNTS, Operator

pytestmark = pytest.mark.e2e


@pytest.fixture
def service(serve: Callable[..., Api]) -> Api:
    """A separate sandbox for each test, because cooldowns cannot be reset."""
    return serve(**EIGHT_ACCOUNTS)


def test_the_catalogue_has_its_own_cooldown(operator: Operator, service: Api) -> None:
    service.limiter.configure({"account_catalog": RateLimit(3, 1)})
    operator.sync(GRAMHOUSE_PAGE_SIZE="2")
    assert_matches_api(operator.ask, service)
    refused = next(index for index, entry in enumerate(service.requests) if entry.status == 429)
    after = [entry.operation for entry in service.requests[refused + 1 :]]
    # While the catalogue was waiting, the media of the accounts listed so far were scanned.
    assert after.index("accounts.list") > 0
    assert service.early == 0


def test_a_wait_over_the_budget_defers_the_scan_to_the_next_run(operator: Operator, service: Api) -> None:
    one = service.ids("active")[0]
    operator.env |= {"GRAMHOUSE_PAGE_SIZE": "5", "GRAMHOUSE_MAX_WAIT": "10"}
    service.script.replace([Rule(refuse("rate_limited", 3600), account_id=one, surface="posts", nth=3)])
    assert operator.sync(code=3)["outcomes"]["deferred"] == 1
    [(resume_after,)] = operator.ask("SELECT resume_after FROM run_outcomes WHERE outcome = 'deferred'")
    assert 3590 < (resume_after - datetime.now(UTC)).total_seconds() < 4000
    # The stored cooldown is still active, so the account is not requested.
    service.requests.clear()
    service.script.replace()
    operator.sync(code=3)
    assert not [entry for entry in service.requests if entry.account_id == one]
    assert operator.run("status", "--json").json()["failures"][0]["outcome"] == "deferred"
