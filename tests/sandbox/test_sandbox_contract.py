"""Every error of section 7, from a real request or a fault, equals its literal example."""

import re
from collections.abc import Callable

import pytest

from tests.conformance.contract_examples import ERRORS, Example
from tests.sandbox.asgi_client import Answer, Asker

Build = Callable[..., Asker]


def check_literal(answer: Answer, example: Example) -> None:
    assert answer.status == example.status
    headers = {name.lower(): value for name, value in example.headers.items() if name != "X-Correlation-ID"}
    assert {name: answer.headers[name] for name in headers} == headers
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", answer.headers["x-correlation-id"])
    literal = {**example.body["error"], "correlation_id": answer.headers["x-correlation-id"]}
    assert answer.json() == {"error": literal}


@pytest.mark.parametrize("code", ERRORS)
def test_a_fault_is_the_literal_answer(asker: Asker, code: str) -> None:
    for operation in ERRORS[code].operations:
        assert asker.control("POST", "faults", {"code": code, "retry_after": 30}).status == 201
        answer = asker.get() if operation == "accounts.list" else asker.media(asker.account_id())
        check_literal(answer, ERRORS[code])


def test_a_cursor_is_valid_for_its_own_list_alone(asker: Asker) -> None:
    one, other = asker.account_id(0), asker.account_id(1)
    of_accounts, of_posts = (answer.json()["next_cursor"] for answer in (asker.get(limit=1), asker.media(one, limit=1)))
    assert [asker.get(cursor=of_accounts).status, asker.media(one.upper(), cursor=of_posts).status] == [200, 200]
    wrong = [
        asker.get(cursor=of_posts),
        asker.media(one, cursor=of_accounts),
        asker.media(one, "stories", cursor=of_posts),
        asker.media(other, cursor=of_posts),
    ]
    assert [answer.code for answer in wrong] == ["api_invalid_cursor"] * 4
