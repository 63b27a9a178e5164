import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ACCOUNTS, accounts_request, feed_request
from connectors.source.errors import RETRY, RULES, SKIP, WAIT, ApiError, Deferred, client_error, hint_for, rule_for
from connectors.source.responses import read_response
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


DOCUMENTED = {code for code, rule in RULES.items() if rule.status is not None}


def example(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    return read


def test_the_rules_the_contract_and_the_decisions_have_the_same_codes() -> None:
    assert {example(path)["body"]["error"]["code"] for path in EXAMPLES} == DOCUMENTED == set(DECISIONS)


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
        *((status, "stop", "failed") for status in (400, 401, 413, 415)),
        (403, "skip", "denied"),
        (404, "skip", "not_found"),
        (422, "skip", "failed"),
        (429, "wait", "failed"),
        *((status, "retry", "failed") for status in (302, 408, 500, 599)),
    ],
)
def test_an_unknown_code_is_ruled_by_its_status_and_a_gateways_word_stops_nothing(
    status: int, disposition: str, outcome: str
) -> None:
    for code in ("", "api_brand_new", "timeout", "api_invalid_cursor" if status != 422 else "x"):
        rule = rule_for(code, status)
        assert (rule.disposition.value, rule.outcome) == (disposition, outcome)
    between = rule_for(None, status)
    assert (between.disposition, between.outcome) == (WAIT if status == 429 else RETRY, "failed")
    assert not {"key", "bug in gramhouse"} & set(between.hint.split(" "))


def test_every_code_has_a_hint_but_an_unknown_one() -> None:
    assert all(map(hint_for, [*RULES, "http_400", "http_502"]))
    assert {hint_for(code) for code in ("api_brand_new", "")} == {""}


OURS = sorted(code for code, rule in RULES.items() if rule.status is None)


@pytest.mark.parametrize("code", OURS)
def test_our_own_codes_make_one_line_errors(code: str) -> None:
    error = client_error(ACCOUNTS, code, "first\nsecond \x1b[31m", status=200, correlation_id="C")
    failure = error.failure
    assert (failure.message, error.retry_after) == ("first second [31m", None)
    assert str(error) == f"accounts.list: 200 {code}: first second [31m (correlation id C)"
    assert failure.hint.isprintable()
    assert failure.disposition in {RETRY, WAIT, SKIP}


def test_errors_travel_between_processes() -> None:
    error = client_error(ACCOUNTS, "timeout", "late")
    copy = pickle.loads(pickle.dumps(Deferred("account_catalog", NOW, error.failure)))
    assert (copy.scope, copy.resume_after) == ("account_catalog", NOW)
    assert copy.error == error.failure
    assert str(copy.error) == str(error)
    assert str(copy) == ("account_catalog must wait until 2026-01-01T00:00:00+00:00 (accounts.list: timeout: late)")
    assert str(Deferred("s", NOW, None)) == "s must wait until 2026-01-01T00:00:00+00:00"
