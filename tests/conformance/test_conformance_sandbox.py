"""The sandbox conforms to its OpenAPI description and to the contract."""

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.keys import DEMO_KEY, NO_ACCOUNT_KEY, NO_SCOPE_KEY, ONE_ACCOUNT_KEY, Credential
from connectors.sandbox.settings import SandboxSettings
from tests.conformance.contract_examples import ACCOUNTS, MEDIA
from tests.conformance.expected_responses import Grant
from tests.conformance.schemathesis_run import Found, examine

SETTINGS = SandboxSettings(accounts=40, posts=60, stories=2)
LISTED = [account.id for account in Sandbox(SETTINGS).catalogue.accounts(0, None)]
ALL = frozenset(LISTED)
START = 5
LEFT = ALL - {account.id for account in Sandbox(SETTINGS).catalogue.accounts(START, None)}
REVOKED_KEY, LEFT_KEY = "sandbox-revoked-key", "sandbox-left-key"

# Each key, and what must have been exchanged with it, so that the test is not empty.
GRANTS = {
    "all accounts": (Grant(DEMO_KEY, accounts=ALL), {(ACCOUNTS, 200), (ACCOUNTS, 422), (MEDIA, 200), (MEDIA, 422)}),
    "one account": (Grant(ONE_ACCOUNT_KEY, accounts=ALL & {LISTED[0]}), {(ACCOUNTS, 200), (MEDIA, 200), (MEDIA, 403)}),
    "no account": (Grant(NO_ACCOUNT_KEY), {(ACCOUNTS, 200), (ACCOUNTS, 422), (MEDIA, 403)}),
    "no scope": (Grant(NO_SCOPE_KEY, scoped=False, accounts=ALL), {(ACCOUNTS, 200), (MEDIA, 403)}),
    "a key that is none": (Grant("sandbox-made-up-key", known=False), {(ACCOUNTS, 401), (MEDIA, 401)}),
    "a revoked key": (Grant(REVOKED_KEY, known=False), {(ACCOUNTS, 401), (MEDIA, 401)}),
    "accounts that left": (
        Grant(LEFT_KEY, accounts=frozenset({LISTED[0]}), left=LEFT),
        {(ACCOUNTS, 200), (MEDIA, 403), (MEDIA, 404)},
    ),
}
# What a key that is none is answered, and a single account, is among the examples of test_conformance_examples, too.
RARER = {"one account", "no account", "a key that is none", "a revoked key"}
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


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.long if name in RARER else ()) for name in GRANTS]
)
def examined(request: pytest.FixtureRequest) -> tuple[str, Found]:
    grant, _ = GRANTS[request.param]
    sandbox = Sandbox(SETTINGS)
    if grant.secret == REVOKED_KEY:
        sandbox.keyring.add(REVOKED_KEY, Credential("revoked"))
        sandbox.keyring.revoke("revoked")
    if grant.left:
        sandbox.day = START
        positions = sorted(sandbox.catalogue.position(one) for one in grant.accounts | grant.left)
        sandbox.keyring.add(LEFT_KEY, Credential("left", positions=tuple(positions)))
    return request.param, examine(sandbox, grant)


def test_the_sandbox_conforms_to_its_description(examined: tuple[str, Found]) -> None:
    name, found = examined
    assert sorted(set(found.complaints)) == []
    # Fewer exchanges would test nothing.
    assert {(operation, status) for method, operation, status in found.seen if method == "GET"} >= GRANTS[name][1]
    assert {method for method, _, _ in found.seen} == METHODS
    assert all(found.checks[check] >= 100 for check in CHECKS)
    assert found.exchanges >= 180
    assert found.followed or name not in ("all accounts", "no scope")
