import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ACCOUNTS, accounts_request, feed_request, read_response
from connectors.source.errors import (
    CLIENT_ERRORS,
    RULES,
    ApiError,
    Deferred,
    Disposition,
    client_error,
    hint_for,
    rule_for,
)
from models.feeds import FEEDS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXAMPLES = sorted((Path(__file__).parents[1] / "contract").glob("[45]*.json"))
REQUESTS = {
    request.operation: request
    for request in (accounts_request(None, 50), feed_request(FEEDS["posts"], "an-id", None, 50))
}
# Written by hand from the rules, not from the table under test.
DECISIONS = {
    "api_account_not_granted": ("skip", "denied"),
    "api_forbidden": ("skip", "denied"),
    "api_scope_denied": ("stop", "denied"),
    "api_automation_media_not_found": ("skip", "not_found"),
    "api_invalid_cursor": ("restart", "failed"),
    "rate_limited": ("wait", "failed"),
    **dict.fromkeys(("api_invalid_limit", "api_validation_error"), ("skip", "failed")),
    "api_automation_invalid_configuration": ("skip", "failed"),
    **dict.fromkeys(("api_internal_error", "api_invalid_projection", "api_projection_too_large"), ("retry", "failed")),
    **dict.fromkeys(("api_account_resolution_unavailable", "rate_limiter_unavailable"), ("retry", "failed")),
    **dict.fromkeys(("api_invalid_content_length", "api_invalid_json", "api_invalid_request_url"), ("stop", "failed")),
    **dict.fromkeys(("api_invalid_utf8", "api_unauthorized", "api_body_too_large"), ("stop", "failed")),
    **dict.fromkeys(("api_json_too_deep", "api_unsupported_media_type"), ("stop", "failed")),
}


def example(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def test_the_rules_the_contract_and_the_decisions_have_the_same_codes() -> None:
    assert {example(path)["body"]["error"]["code"] for path in EXAMPLES} == set(RULES) == set(DECISIONS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_published_refusal_is_read_and_ruled(path: Path) -> None:
    sent = example(path)
    text = sent["body"]["error"]
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    for operation in sent["operations"]:
        with pytest.raises(ApiError) as caught:
            read_response(REQUESTS[operation], sent["status"], headers, json.dumps(sent["body"]).encode(), now=NOW)
        error, failure = caught.value, caught.value.failure
        assert (failure.operation, failure.status, failure.code) == (operation, sent["status"], text["code"])
        assert failure.correlation_id == headers["x-correlation-id"]
        assert failure.message.startswith(text["message"])
        assert (failure.disposition.value, failure.outcome) == DECISIONS[text["code"]]
        assert error.retry_after == (float(headers["retry-after"]) if "retry-after" in headers else None)
        assert failure.hint.isprintable()
        assert RULES[failure.code].status == sent["status"]


@pytest.mark.parametrize(
    ("status", "disposition", "outcome"),
    [
        (401, "stop", "failed"),
        (403, "skip", "denied"),
        (404, "skip", "not_found"),
        (408, "retry", "failed"),
        (422, "skip", "failed"),
        (429, "wait", "failed"),
        (500, "retry", "failed"),
        (599, "retry", "failed"),
    ],
)
def test_an_unknown_code_is_ruled_by_its_status(status: int, disposition: str, outcome: str) -> None:
    for code in (None, "", "api_brand_new", "timeout"):
        rule = rule_for(code, status)
        assert (rule.disposition.value, rule.outcome) == (disposition, outcome)


@pytest.mark.parametrize("status", [400, 413, 415])
def test_only_an_error_envelope_of_the_service_is_a_bug_of_ours(status: int) -> None:
    assert {rule_for(code, status).disposition for code in ("", "api_brand_new", "timeout")} == {Disposition.STOP}
    between = rule_for(None, status)
    assert (between.disposition, between.outcome) == (Disposition.SKIP, "failed")
    assert "bug in gramhouse" not in hint_for(f"http_{status}")
    assert "proxy" in hint_for(f"http_{status}")


def test_every_code_has_a_hint_but_an_unknown_one() -> None:
    assert all(map(hint_for, [*RULES, *CLIENT_ERRORS, "http_400", "http_502"]))
    assert {hint_for(code) for code in ("api_brand_new", "http_", "http_x", "")} == {""}


def test_a_code_with_a_status_not_its_own_is_ruled_by_the_status() -> None:
    assert rule_for("api_unauthorized", 503).disposition is Disposition.RETRY
    assert rule_for("api_internal_error", 401).disposition is Disposition.STOP
    assert rule_for("api_invalid_cursor", 400).disposition is Disposition.STOP


@pytest.mark.parametrize("code", sorted(CLIENT_ERRORS))
def test_our_own_codes_make_one_line_errors(code: str) -> None:
    error = client_error(ACCOUNTS, code, "first\nsecond \x1b[31m", status=200, correlation_id="C")
    failure = error.failure
    assert (failure.message, error.retry_after) == ("first second [31m", None)
    assert str(error) == f"accounts.list: 200 {code}: first second [31m (correlation id C)"
    assert failure.hint.isprintable()
    healed_by_asking_again = {
        "timeout",
        "connection_failed",
        "connection_reset",
        "cut_body",
        "protocol_error",
        "malformed_page",
    }
    stops = {"certificate_refused", "proxy_refused"}
    expected = "retry" if code in healed_by_asking_again else "stop" if code in stops else "skip"
    assert failure.disposition.value == expected


def test_errors_travel_between_processes() -> None:
    error = client_error(ACCOUNTS, "timeout", "late")
    copy = pickle.loads(pickle.dumps(Deferred("account_catalog", NOW, error.failure)))
    assert (copy.scope, copy.resume_after) == ("account_catalog", NOW)
    assert copy.error == error.failure
    assert str(copy.error) == str(error)
    assert str(copy) == ("account_catalog must wait until 2026-01-01T00:00:00+00:00 (accounts.list: timeout: late)")
    assert str(Deferred("s", NOW, None)) == "s must wait until 2026-01-01T00:00:00+00:00"
