"""The sandbox conforms to its OpenAPI description."""

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.keys import DEMO_KEY, NO_ACCOUNT_KEY, NO_SCOPE_KEY, ONE_ACCOUNT_KEY
from connectors.sandbox.settings import SandboxSettings
from tests.conformance.contract_examples import ACCOUNTS, MEDIA
from tests.conformance.schemathesis_run import examine

SETTINGS = SandboxSettings(accounts=40, posts=60, stories=2)

# Each key, and what must have been exchanged with it, so that the test is not empty.
KEYS = {
    DEMO_KEY: {(ACCOUNTS, 200), (ACCOUNTS, 422), (MEDIA, 200), (MEDIA, 422)},
    ONE_ACCOUNT_KEY: {(ACCOUNTS, 200), (MEDIA, 200), (MEDIA, 403)},
    NO_ACCOUNT_KEY: {(ACCOUNTS, 200), (ACCOUNTS, 422), (MEDIA, 403)},
    NO_SCOPE_KEY: {(ACCOUNTS, 200), (MEDIA, 403)},
    "a-key-that-is-none": {(ACCOUNTS, 401), (MEDIA, 401)},
}
EVERY_TIME = (DEMO_KEY, NO_SCOPE_KEY)
METHODS = {"GET", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "QUERY"}
CHECKS = {
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "ignored_auth",
}


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=() if key in EVERY_TIME else pytest.mark.long) for key in KEYS]
)
def test_the_sandbox_conforms_to_its_description(key: str) -> None:
    found = examine(Sandbox(SETTINGS), key)
    assert sorted(set(found.complaints)) == []
    # Fewer exchanges would test nothing.
    assert {(operation, status) for method, operation, status in found.seen if method == "GET"} >= KEYS[key]
    assert {method for method, _, _ in found.seen} == METHODS
    assert all(found.checks[check] >= 100 for check in CHECKS)
    assert found.exchanges >= 180
    assert found.followed or key not in EVERY_TIME
