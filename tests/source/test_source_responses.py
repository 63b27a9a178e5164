"""Requests as values, and every answer of the contract, of an unknown service and of a gateway with its rule."""

import json
import pickle
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.source.errors import RETRY, RULES, SKIP, WAIT, ApiError, rule_of, service_rule
from connectors.source.messages import (
    ACCOUNTS,
    ApiRequest,
    accounts_request,
    feed_request,
    gateway_code,
    read_response,
)
from models.feeds import FEEDS
from tests.conformance.contract_examples import ERRORS
from tests.servers import TRACE

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POSTS, CATALOGUE = FEEDS["posts"], accounts_request(None, 50)
# Written by hand from the rules, not from the table under test.
DECISIONS = {
    "api_invalid_content_length api_invalid_json api_invalid_request_url api_invalid_utf8": ("stop", "failed"),
    "api_unauthorized api_body_too_large api_json_too_deep api_unsupported_media_type": ("stop", "failed"),
    "api_scope_denied": ("stop", "denied"),
    "api_account_not_granted api_forbidden": ("skip", "denied"),
    "api_automation_media_not_found": ("skip", "not_found"),
    "api_invalid_limit api_validation_error api_automation_invalid_configuration": ("skip", "failed"),
    "api_invalid_cursor": ("restart", "failed"),
    "rate_limited": ("wait", "failed"),
    "api_internal_error api_invalid_projection api_projection_too_large": ("retry", "failed"),
    "api_account_resolution_unavailable rate_limiter_unavailable": ("retry", "failed"),
}
DECIDED = {code: decision for codes, decision in DECISIONS.items() for code in codes.split()}
# Those of ours; the others of ours skip one scan.
OURS = {code for code, rule in RULES.items() if rule.status is None}
AGAIN = (
    "timeout connection_failed connection_reset cut_body protocol_error tls_failed certificate_refused proxy_refused"
    " unexpected_status redirect http_400 malformed_page body_too_large_response"
)
OF_OURS = {**dict.fromkeys(OURS, SKIP), **dict.fromkeys(AGAIN.split(), RETRY), "http_429": WAIT}


def refused(status: int, body: bytes = b"", /, *requests: ApiRequest, **headers: str) -> ApiError:
    request = requests[0] if requests else CATALOGUE
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with pytest.raises(ApiError) as caught:
        read_response(request, status, named, body, now=NOW)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return caught.value


def envelope(**output: object) -> bytes:
    return json.dumps({"error": {"code": "api_x", "message": "M.", **output}}).encode()


def test_requests_hold_only_documented_parameters() -> None:
    assert ApiRequest(ACCOUNTS, "/api/v1/accounts?limit=50", "account_catalog") == CATALOGUE
    assert accounts_request("c/+ ", 1).target == "/api/v1/accounts?cursor=c%2F%2B%20&limit=1"
    media = "/api/v1/accounts/ID/media?surface=stories&cursor=&limit=25"
    stories = ApiRequest("accounts.media.list", media, "selected_account:id")
    assert feed_request(FEEDS["stories"], "ID", "", 25) == stories
    for account_id in ("", ".", ".."):
        with pytest.raises(ValueError, match="account id"):
            feed_request(POSTS, account_id, None, 50)


@settings(deadline=None, derandomize=True)
@given(st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
def test_no_id_escapes_its_place_in_the_path(account_id: str) -> None:
    path, _, query = feed_request(POSTS, account_id, None, 50).target.partition("?")
    assert query == "surface=posts&limit=50"
    assert [unquote(part) for part in path.split("/")] == ["", "api", "v1", "accounts", account_id, "media"]
    assert path.isascii()
    assert not {"#", " "} & set(path)


def test_every_published_refusal_is_read_and_ruled() -> None:
    assert ERRORS.keys() == RULES.keys() - OURS == DECIDED.keys()
    requests = {request.operation: request for request in (CATALOGUE, feed_request(POSTS, "an-id", None, 50))}
    for code, sent in ERRORS.items():
        headers = {name.replace("-", "_").lower(): value for name, value in sent.headers.items()}
        for operation in sent.operations:
            error = refused(sent.status, json.dumps(sent.body).encode(), requests[operation], **headers)
            assert (error.operation, error.status, error.code) == (operation, sent.status, code)
            assert error.correlation_id == headers["x_correlation_id"]
            assert error.message.startswith(sent.body["error"]["message"])
            assert (error.rule.disposition.value, error.rule.outcome) == DECIDED[code]
            assert error.retry_after == (float(headers["retry_after"]) if "retry_after" in headers else None)
            assert error.rule.hint.isprintable()
            assert RULES[code].status == sent.status


def test_unknown_codes_are_ruled_by_status_a_gateway_stops_nothing() -> None:
    for status, disposition, outcome in (
        *((status, "stop", "failed") for status in (400, 401, 413, 415)),
        (403, "skip", "denied"),
        (404, "skip", "not_found"),
        (422, "skip", "failed"),
        (429, "wait", "failed"),
        *((status, "retry", "failed") for status in (302, 408, 500, 599)),
    ):
        for code in ("", "api_brand_new", "timeout", "api_invalid_cursor" if status != 422 else "x"):
            rule = service_rule(code, status)
            assert (rule.disposition.value, rule.outcome) == (disposition, outcome)
        between = rule_of(gateway_code(status))
        assert (between.disposition, between.outcome) == (WAIT if status == 429 else RETRY, "failed")
        assert not {"key", "bug in gramhouse"} & set(between.hint.split(" "))


def test_every_code_of_ours_makes_a_one_line_error_with_a_hint() -> None:
    for code, disposition in OF_OURS.items():
        error = ApiError(ACCOUNTS, code, "first\nsecond \x1b[31m", status=200, correlation_id="C")
        assert str(error) == f"accounts.list: 200 {code}: first second [31m (correlation id C)"
        assert (error.rule.disposition, error.rule.outcome) == (disposition, "failed")
        assert error.rule.hint.isprintable()
    assert all(rule_of(code).hint for code in (*RULES, "http_400", "http_502"))
    assert {rule_of(code).hint for code in ("api_brand_new", "")} == {""}


def test_an_error_says_what_was_wrong_in_one_line() -> None:
    issues = [{"code": "too_small", "path": [0, 1]}, {"code": "odd", "path": []}]
    own = envelope(code="new\n" + "x" * 100, message="a\x1b[2Jb", details={"issues": issues})
    failure = refused(418, own, x_correlation_id=TRACE)
    assert (failure.code, failure.message) == ("new " + "x" * 59 + "…", "a [2Jb [too_small at 0.1, odd at ]")


def test_errors_travel_between_processes() -> None:
    error = refused(401, envelope(code="api_brand_new"), x_correlation_id=TRACE, retry_after="7")
    copy = pickle.loads(pickle.dumps(error))
    assert (vars(copy), copy.retry_after, str(copy)) == (vars(error), 7, str(error))
