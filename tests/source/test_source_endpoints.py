import json
from datetime import UTC, datetime
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.source.endpoints import ACCOUNTS, ApiRequest, accounts_request, feed_request
from connectors.source.errors import ApiError, Disposition
from connectors.source.responses import read_response, read_retry_after
from models.feeds import FEEDS

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRACE = "01J9ZK4TQ8M3V5X7B2C6D0FGHN"
CATALOGUE = accounts_request(None, 50)
pure = settings(deadline=None, derandomize=True)


def refused(status: int, body: bytes = b"", **headers: str) -> ApiError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with pytest.raises(ApiError) as caught:
        read_response(CATALOGUE, status, named, body, now=NOW)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def envelope(**output: object) -> bytes:
    return json.dumps({"error": {"code": "api_x", "message": "M.", **output}}).encode()


def test_requests_hold_only_documented_parameters() -> None:
    assert accounts_request(None, 50) == ApiRequest(ACCOUNTS, "/api/v1/accounts", (("limit", "50"),), "account_catalog")
    assert accounts_request("c/+ ", 1).params == (("cursor", "c/+ "), ("limit", "1"))
    assert feed_request(FEEDS["stories"], "id", "c", 25) == ApiRequest(
        "accounts.media.list",
        "/api/v1/accounts/id/media",
        (("surface", "stories"), ("cursor", "c"), ("limit", "25")),
        "selected_account:id",
    )
    # An empty cursor is not documented, and not secret either.
    assert accounts_request("", 1).params[0] == ("cursor", "")


@pytest.mark.parametrize("limit", [-1, 0, 51])
def test_limits_outside_the_contract_are_never_sent(limit: int) -> None:
    with pytest.raises(ValueError, match="1 to 50"):
        accounts_request(None, limit)
    with pytest.raises(ValueError, match="1 to 50"):
        feed_request(FEEDS["posts"], "id", None, limit)


@pytest.mark.parametrize("account_id", ["", ".", ".."])
def test_an_id_that_would_be_resolved_away_is_refused(account_id: str) -> None:
    with pytest.raises(ValueError, match="account id"):
        feed_request(FEEDS["posts"], account_id, None, 50)


@pure
@given(st.text(min_size=1).filter(lambda text: text not in {".", ".."}))
def test_no_id_escapes_its_place_in_the_path(account_id: str) -> None:
    path = feed_request(FEEDS["posts"], account_id, None, 50).path
    assert [unquote(part) for part in path.split("/")] == ["", "api", "v1", "accounts", account_id, "media"]
    assert path.isascii()
    assert not {"?", "#", " "} & set(path)


def test_the_error_of_a_malformed_page_describes_the_response() -> None:
    failure = refused(200, b"<html>", content_type="text/html", x_correlation_id=TRACE).failure
    assert (failure.code, failure.status, failure.correlation_id) == ("malformed_page", 200, TRACE)
    assert failure.message == "text/html: it is not a JSON object"
    assert refused(200).failure.message.startswith("a body of no stated type: ")


def test_unknown_codes_and_messages_are_sanitized_and_issues_listed() -> None:
    issues = [{"code": "too_small", "path": [0, 1]}, {"code": "odd", "path": []}]
    own = envelope(code="new\n" + "x" * 100, message="a\x1b[2Jb", details={"issues": issues})
    failure = refused(418, own, x_correlation_id=TRACE).failure
    assert failure.code == "new " + "x" * 59 + "…"
    assert failure.message == "a [2Jb [too_small at 0.1, odd at ]"


@pytest.mark.parametrize(
    ("status", "code"),
    [(100, "unexpected_status"), (204, "unexpected_status"), (401, "http_401"), (404, "http_404"), (502, "http_502")],
)
def test_what_the_service_did_not_say_is_the_word_of_a_gateway(status: int, code: str) -> None:
    for body in (b"<html>bad\ngateway</html>", b'{"message":"Forbidden"}', envelope(code="access_denied"), b""):
        failure = refused(status, body, content_type="text/html\x07", server="nginx", via="1.1 x").failure
        assert (failure.code, failure.disposition, failure.outcome) == (code, Disposition.RETRY, "failed")
        assert failure.message.startswith("a proxy or gateway (nginx), not the service, answered")
        assert failure.message.endswith(f" with status {status}, text/html")
    assert refused(status).failure.message.endswith("no stated type")


def test_an_error_is_the_services_if_its_code_is_documented_or_it_is_traced() -> None:
    for body, headers in (
        (envelope(code="api_forbidden"), {}),
        (envelope(), {"x_correlation_id": TRACE}),
        (envelope(correlation_id=TRACE), {}),
    ):
        assert refused(403, body, **headers).failure.disposition is Disposition.SKIP


@pytest.mark.parametrize(("age", "is_cached"), [(None, False), ("0", False), ("1", True), ("x", True)])
def test_an_age_says_that_a_cache_answered(age: str | None, *, is_cached: bool) -> None:
    headers = {} if age is None else {"age": age}
    response = read_response(CATALOGUE, 200, headers, b'{"items":[],"next_cursor":null}', now=NOW)
    assert response.is_cached is is_cached


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("https://user:secret@www.elsewhere.example:8443/login?token=1", "www.elsewhere.example"),
        ("/login", "another path of this host"),
        ("", "another path of this host"),
        ("https://[broken", "an invalid address"),
    ],
)
def test_the_error_of_a_redirect_names_only_the_host(location: str, host: str) -> None:
    failure = refused(302, location=location).failure
    assert failure.code == "redirect"
    who = "a proxy or gateway, not the service,"
    assert failure.message == f"{who} redirects to {host}, which is not followed"
    assert "captive portal" in failure.hint
    assert "GRAMHOUSE_BASE_URL" in failure.hint


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("86400000", 86400000.0),
        ("9" * 20, 1e13),
        ("Thu, 01 Jan 2026 12:01:30 -0000", 90.0),
        ("Thu, 01 Jan 2026 12:00:00 GMT", 0.0),
        ("Thu, 99 Jan 2026 11:59:59 GMT", None),
        ("٣", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str, seconds: float | None) -> None:
    """tests/conformance has the frequent forms."""
    assert read_retry_after(value, NOW) == seconds
