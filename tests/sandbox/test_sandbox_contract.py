"""Every error of section 7, from a real request or a fault rule, equals its literal example."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox.contract import ACCOUNTS as ACCOUNTS_LIST
from connectors.sandbox.contract import ERRORS, MAX_DEPTH
from connectors.sandbox.faults.rules import Action, Rule
from connectors.sandbox.http.keys import NO_ACCOUNT_KEY, NO_SCOPE_KEY, Key
from connectors.sandbox.settings import RateLimit
from tests.sandbox.asgi_client import ACCOUNTS, Answer, Asker

Build = Callable[..., Asker]
CONTRACT = Path(__file__).parents[1] / "contract"
EXAMPLES = {path.stem: json.loads(path.read_text()) for path in sorted(CONTRACT.glob("*.json"))}
ERROR_EXAMPLES = {name: example for name, example in EXAMPLES.items() if example["status"] >= 400}
BEARER = (b"authorization", b"Bearer sandbox-demo-key")
STRANGER = "0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11"


def check_literal(answer: Answer, example: dict[str, Any]) -> None:
    assert answer.status == example["status"]
    expected = dict(example["headers"])
    del expected["X-Correlation-ID"]
    for name, value in expected.items():
        assert answer.headers[name.lower()] == value, name
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", answer.headers["x-correlation-id"])
    body = answer.json()
    assert body["error"].pop("correlation_id") == answer.headers["x-correlation-id"]
    literal = json.loads(json.dumps(example["body"]))
    del literal["error"]["correlation_id"]
    assert body == literal


def _limited(asker: Asker) -> Answer:
    asker.get()
    return asker.get()


def _left(asker: Asker) -> Answer:
    """Request an account that was listed and is removed on a later day."""
    listed = {account["id"] for account in asker.scan()}
    asker.sandbox.day = 5
    return asker.media(next(iter(sorted(listed - {account["id"] for account in asker.scan()}))))


REQUESTS: dict[str, Callable[[Asker], Answer]] = {
    "400_api_invalid_content_length": lambda a: a.raw(ACCOUNTS, headers=[BEARER, (b"content-length", b"-1")]),
    "400_api_invalid_json": lambda a: a.send_body(b"{not json"),
    "400_api_invalid_request_url": lambda a: a.get("/api/v1/nowhere"),
    "400_api_invalid_utf8": lambda a: a.send_body(b'"\xff"'),
    "401_api_unauthorized": lambda a: a.get(key="nobody's"),
    "403_api_account_not_granted": lambda a: a.media(STRANGER),
    "404_api_automation_media_not_found": _left,
    "403_api_scope_denied": lambda a: a.media(a.account_id(), key=NO_SCOPE_KEY),
    "413_api_body_too_large": lambda a: a.send_body(b" " * (1024 * 1024 + 1)),
    "413_api_json_too_deep": lambda a: a.send_body(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)),
    "415_api_unsupported_media_type": lambda a: a.send_body(b"a=1", "application/x-www-form-urlencoded"),
    "422_api_invalid_cursor": lambda a: a.get(cursor="made-up"),
    "422_api_invalid_limit": lambda a: a.get(limit=51),
    "422_api_validation_error": lambda a: a.get(sort="asc"),
    "422_api_automation_invalid_configuration": lambda a: a.media(a.account_id(), "reels"),
    "429_rate_limited": _limited,
}


def test_there_is_one_example_for_every_row_and_the_table_agrees() -> None:
    assert sorted(ERROR_EXAMPLES) == sorted(f"{row.status}_{row.code}" for row in ERRORS.values())
    for row in ERRORS.values():
        example = EXAMPLES[f"{row.status}_{row.code}"]
        assert example["body"]["error"]["message"] == row.message
        assert example["operations"] == list(row.operations)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_real_request_gets_the_literal_answer(build: Build, name: str) -> None:
    limit = RateLimit(1, 30) if name == "429_rate_limited" else None
    check_literal(REQUESTS[name](build(account_catalog=limit)), EXAMPLES[name])


def test_a_limited_media_request_gets_the_literal_answer(build: Build) -> None:
    asker = build(selected_account=RateLimit(1, 30))
    answers = [asker.media(asker.account_id()) for _ in range(2)]
    assert answers[0].status == 200
    check_literal(answers[1], EXAMPLES["429_rate_limited"])


@pytest.mark.parametrize(
    ("name", "operation"),
    [(name, operation) for name, example in ERROR_EXAMPLES.items() for operation in example["operations"]],
)
def test_a_scripted_error_is_the_literal_answer(asker: Asker, name: str, operation: str) -> None:
    retry_after = 30 if name == "429_rate_limited" else None
    code = name.partition("_")[2]
    asker.sandbox.faults.replace([Rule(Action("error", code=code, retry_after=retry_after))])
    answer = asker.get() if operation == ACCOUNTS_LIST else asker.media(asker.account_id())
    check_literal(answer, EXAMPLES[name])


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", b""),
        ("/api/v1/accounts/", b""),
        ("/api/v1/accounts//media", b""),
        ("/api/v1/accounts/a/b/media", b""),
        ("/api/v2/accounts", b""),
        ("/api/v1/%ff", b""),
        ("/api/v1/accounts%zz", b""),
        (ACCOUNTS, b"cursor=%zz"),
        (ACCOUNTS, b"cursor=%ff"),
    ],
)
def test_urls_that_cannot_be_read(asker: Asker, path: str, query: bytes) -> None:
    answer = asker.raw(path, query, headers=[BEARER])
    assert (answer.status, answer.code) == (400, "api_invalid_request_url")


def test_other_methods_get_an_invalid_url_error(asker: Asker) -> None:
    assert asker.raw(ACCOUNTS, headers=[BEARER], method="POST").code == "api_invalid_request_url"


@pytest.mark.parametrize("length", [b"-1", b"1.5", b"ten", b"", b"1, 2"])
def test_content_lengths_that_cannot_be_read(asker: Asker, length: bytes) -> None:
    answer = asker.raw(ACCOUNTS, headers=[BEARER, (b"content-length", length)])
    assert answer.code == "api_invalid_content_length"


def test_a_chunked_body_over_the_limit_is_refused(asker: Asker) -> None:
    headers = [BEARER, (b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]
    answer = asker.raw(ACCOUNTS, headers=headers, body=[b" " * 600_000, b" " * 600_000])
    assert answer.code == "api_body_too_large"


def test_a_valid_body_is_read_and_ignored(asker: Asker) -> None:
    deep = b"[" * MAX_DEPTH + b'"[[[[ \\" ]"' + b"]" * MAX_DEPTH
    assert asker.send_body(deep, "application/json; charset=utf-8").status == 200


@pytest.mark.parametrize("limit", ["0", "51", "-1", "1.0", "ten", "", "+5", "99999999999999999999"])
@pytest.mark.parametrize("operation", ["accounts", "media"])
def test_limits_outside_1_to_50(asker: Asker, operation: str, limit: str) -> None:
    answer = asker.get(limit=limit) if operation == "accounts" else asker.media(asker.account_id(), limit=limit)
    assert (answer.status, answer.code) == (422, "api_invalid_limit")


def test_validation_issues_have_the_position_in_the_query(asker: Asker) -> None:
    answer = asker.raw(ACCOUNTS, b"limit=5&order=up&limit=6", headers=[BEARER])
    assert answer.code == "api_validation_error"
    assert answer.json()["error"]["details"]["issues"] == [
        {"code": "unrecognized_keys", "path": [1]},
        {"code": "duplicate_key", "path": [2]},
    ]
    many = asker.raw(ACCOUNTS, b"&".join(b"p%d=1" % n for n in range(99)), headers=[BEARER])
    assert len(many.json()["error"]["details"]["issues"]) == 32


@pytest.mark.parametrize(
    "query", [b"", b"surface=", b"surface=reels", b"surface=posts&x=1", b"surface=posts&surface=posts"]
)
def test_media_configuration(asker: Asker, query: bytes) -> None:
    answer = asker.raw(f"{ACCOUNTS}/{asker.account_id()}/media", query, headers=[BEARER])
    assert (answer.status, answer.code) == (422, "api_automation_invalid_configuration")


def test_an_account_id_that_is_not_a_uuid(asker: Asker) -> None:
    assert asker.media("not-a-uuid").code == "api_automation_invalid_configuration"


@pytest.mark.parametrize("header", [b"", b"Basic abc", b"Bearer", b"Bearer ", b"sandbox-demo-key"])
def test_malformed_credentials_get_401(asker: Asker, header: bytes) -> None:
    answer = asker.raw(ACCOUNTS, headers=[(b"authorization", header)])
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_an_unknown_account_looks_like_one_that_is_not_granted(asker: Asker) -> None:
    real, unreal = asker.account_id(1), STRANGER
    answers = [asker.media(i, key=NO_ACCOUNT_KEY) for i in (real, unreal)]
    shown = [(a.status, a.json()["error"]["code"], a.json()["error"]["message"], len(a.body)) for a in answers]
    assert shown[0] == shown[1]


def test_only_a_key_with_access_gets_404_for_a_removed_account(build: Build) -> None:
    asker = build(day=5)
    left = set(range(40)) - {account.position for account in asker.sandbox.catalogue.accounts(5)}
    position = min(left)
    left_id, listed_id = asker.sandbox.catalogue.account_id(position), asker.account_id(0)
    asker.sandbox.keyring.add(Key("granted", accounts=frozenset({position}), name="granted"))
    answers = [asker.media(one, key=key) for one in (left_id, listed_id) for key in ("granted", NO_ACCOUNT_KEY)]
    assert [answer.code if answer.status != 200 else "" for answer in answers] == [
        "api_automation_media_not_found",
        "api_account_not_granted",
        "api_account_not_granted",
        "api_account_not_granted",
    ]


def test_the_account_list_contains_granted_accounts_and_needs_no_scope(asker: Asker) -> None:
    assert len(asker.scan(key=NO_SCOPE_KEY, limit=7)) == 40
    assert [a["id"] for a in asker.scan(key="sandbox-one-account-key")] == [asker.account_id(0)]
    assert asker.scan(key=NO_ACCOUNT_KEY) == []


def test_correlation_ids_are_unique(asker: Asker) -> None:
    ids = {asker.get(key=None).headers["x-correlation-id"] for _ in range(200)}
    assert len(ids) == 200
