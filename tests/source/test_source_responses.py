"""Requests as values, every refusal with its rule, and what follows it: another try, a wait, an outage."""

import json
import pickle
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.source.errors import (
    RESTART,
    RETRY,
    RULES,
    SKIP,
    STOP,
    WAIT,
    ApiError,
    Deferred,
    Disposition,
    rule_of,
    service_rule,
)
from connectors.source.messages import (
    ACCOUNTS,
    ApiRequest,
    accounts_request,
    feed_request,
    gateway_code,
    read_response,
)
from connectors.source.waits import TRIES, Attempts, Outage, RateLimitBudget, Verdict
from models.feeds import FEEDS
from tests.clocks import START, VirtualClock
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


TIMEOUT = ApiError(ACCOUNTS, "timeout", "")
EXAMPLE = {rule.disposition: code for code, rule in RULES.items()}


def error(disposition: Disposition, retry_after: float | None = None) -> ApiError:
    return ApiError(ACCOUNTS, EXAMPLE[disposition], "", retry_after=retry_after)


@pytest.mark.parametrize(
    ("kind", "share", "delays"),
    [
        (RETRY, 1.0, [0.5, 1, 2, 4, 8]),
        (WAIT, 0.0, [1, 2, 4, 8, 16, 32, *[60] * 2000]),
        (WAIT, 1.0, [1.1, 2.2, 4.4, 8.8, 17.6, 35.2, 65]),
    ],
)
def test_delays_grow_and_are_capped(kind: Disposition, share: float, delays: list[float]) -> None:
    attempts = Attempts(50)
    verdicts = [attempts.decide(error(kind), lambda: share, of_key=False) for _ in delays]
    assert [verdict.delay for verdict in verdicts] == pytest.approx(delays)
    assert {(verdict.retries, verdict.whole_scope) for verdict in verdicts} == {(True, kind is WAIT)}


def test_tries_are_all_attempts_and_permanent_errors_are_not_retried() -> None:
    for disposition in (SKIP, RESTART, STOP):
        assert Attempts(50).decide(error(disposition, 5), lambda: 0.5, of_key=False) == Verdict(retries=False)
    attempts = Attempts(50)
    tried = [attempts.decide(TIMEOUT, lambda: 0.0, of_key=False).retries for _ in range(TRIES)]
    assert tried == [True] * 5 + [False]
    # The Retry-After of the last failure applies to the scope's other requests.
    last = attempts.decide(error(RETRY, 100), lambda: 0.5, of_key=False)
    assert last == Verdict(retries=False, delay=102.5, whole_scope=True)
    # Neither a wait nor a limit of the key is a try.
    for _ in range(9):
        assert attempts.decide(error(WAIT, 3), lambda: 0.0, of_key=False).retries
        assert attempts.decide(refused(503), lambda: 0.0, of_key=True) == Verdict(True, 1.0, whole_scope=True)  # noqa: FBT003
        assert attempts.decide(refused(503, retry_after="7"), lambda: 0.0, of_key=True).delay == 7


@settings(deadline=None, derandomize=True)
@given(st.booleans(), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_an_announced_wait_is_never_shortened_and_holds_the_scope(of_key: bool, wait: float, share: float) -> None:  # noqa: FBT001
    verdict = Attempts(50).decide(error(RETRY, wait), lambda: share, of_key=of_key)
    assert (verdict.retries, verdict.whole_scope) == (True, True)
    least = max(1.0, wait)
    assert least <= verdict.delay <= least + min(least / 10, 5) + 1e-6


def test_less_is_asked_for_before_giving_up() -> None:
    for failures, begun, limits in (
        ([refused(500)] * 5, 50, [50, 25, 12, 6, 5]),
        ([refused(504), TIMEOUT, TIMEOUT, None, refused(500)], 50, [50, 25, 12, 12, 12]),
        ([ApiError(ACCOUNTS, "body_too_large_response", "", status=200)] * 4, 20, [20, 10, 5, 5]),
        # It was not the size of the page.
        ([ApiError(ACCOUNTS, "connection_failed", "")] * 5, 50, [50] * 5),
        ([refused(401), refused(403), refused(503), refused(302), refused(404)], 50, [50] * 5),
    ):
        attempts, found = Attempts(begun), []
        for failed in failures:
            if failed is None:
                attempts.failures.clear()
            else:
                attempts.decide(failed, lambda: 0.0, of_key=False)
            found.append(attempts.limit)
        assert found == limits
        assert (attempts.reduced_by is None) == (limits[-1] == begun)


@pytest.mark.anyio
async def test_a_cooldown_is_waited_for_within_the_budget_and_never_shortened() -> None:
    clock, slept = VirtualClock(), list[float]()

    async def sleep(seconds: float) -> None:
        # It may end early.
        slept.append(seconds)
        clock.passed += seconds if len(slept) > 1 else seconds / 2

    budget = RateLimitBudget("s", max_wait=60)
    for seconds in (44, 5):
        budget.start_cooldown(seconds, clock.monotonic())
    await budget.wait(clock, sleep)
    assert (slept, budget.waited) == ([44, 22], 44)
    budget.start_cooldown(17, clock.monotonic(), TIMEOUT)
    with pytest.raises(Deferred) as caught:
        await budget.wait(clock, sleep)
    assert caught.value.error == TIMEOUT
    assert caught.value.resume_after == START + timedelta(seconds=44 + 17)


ANSWERS = {
    "page": None,
    "away": ApiError(ACCOUNTS, "connection_failed", "refused"),
    "limited": ApiError(ACCOUNTS, "rate_limiter_unavailable", "wait", retry_after=5),
    "broken": ApiError(ACCOUNTS, "malformed_page", "no list", status=200),
    "denied": ApiError(ACCOUNTS, "api_forbidden", "no grant", status=403),
}


def test_an_outage_is_nothing_but_passing_errors_in_several_scopes_and_its_pauses_grow_to_a_minute() -> None:
    # The answers, each with its scope and second.
    away = "away a 2, away b 2, away c 2"
    for answers, is_on in {
        f"{away}, away d 2": True,
        # For too short a time, and one account alone.
        "away a 0.5, away b 0.5, away c 0.5, away d 0.5": False,
        "away a 1, away a 2, away a 3, away a 4, away a 5": False,
        f"{away}, denied d 2, away d 2": False,
        "limited a 2, limited b 2, limited c 2, limited d 2": False,
        "broken a 2, broken b 2, broken c 2, broken d 2": False,
        f"{away}, away d 2, page e 3": False,
    }.items():
        outage = Outage(answered_at=0.0)
        for each in answers.split(", "):
            answer, scope, at = each.split()
            outage = outage.observe(scope, ANSWERS[answer], float(at))
        assert outage.is_on is is_on, answers
    outage, pauses = Outage(answered_at=0.0), list[float]()
    for scope in "abcd":
        outage = outage.observe(scope, ANSWERS["away"], 2.0)
    # What was sent before does not count.
    assert outage.observe("e", ANSWERS["away"], 2.5) == outage
    for _ in range(8):
        pauses.append(outage.pause)
        outage = outage.observe("a", ANSWERS["away"], outage.next_at)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
