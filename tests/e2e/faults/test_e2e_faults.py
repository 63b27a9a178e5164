"""Errors of the network and of the API, from the operator's view."""

import pytest

from tests.api.faults import Action, Rule, refuse
from tests.api.server import Api
from tests.e2e.processes import Operator
from tests.harness.against_api import assert_matches_api

pytestmark = pytest.mark.e2e


def test_errors_resets_and_cut_bodies_end_complete_and_exact(operator: Operator, service: Api) -> None:
    kinds = (refuse("api_internal_error"), Action("reset"), Action("cut"))
    service.script.replace(Rule(kind, probability=0.03) for kind in kinds)
    report = operator.sync(GRAMHOUSE_PAGE_SIZE="5")
    assert report["state"] == "complete"
    assert_matches_api(operator.ask, service)


def test_a_wrong_key_is_one_clear_line_and_loses_nothing(operator: Operator) -> None:
    operator.sync()
    before = operator.ask("SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL")
    message = operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong")
    assert len(message.stdout.strip().splitlines()) == 1
    assert message.stdout.count("api_unauthorized") == 1
    assert "check the API key" in message.stdout
    assert operator.ask("SELECT * EXCLUDE (last_seen_at) FROM media ORDER BY ALL") == before
    assert operator.ask("SELECT state, error_code FROM runs ORDER BY started_at DESC LIMIT 1") == [
        ("failed", "api_unauthorized")
    ]
