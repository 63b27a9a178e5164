"""Keys created, selected, listed and revoked while the sandbox runs (API 5)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from connectors.sandbox.contract import KEY_SCOPES
from connectors.sandbox.http.key_requests import KeyRequest, request_from_text
from tests.sandbox.asgi_client import Answer, Asker

Build = Callable[..., Asker]
BUILT_IN = ["demo", "no-scope", "one-account", "no-account"]
READ = "automations:read"


def made(asker: Asker, **choices: object) -> str:
    answer = asker.control("POST", "keys", choices)
    assert answer.status == 201, answer.body
    return str(answer.json()["secret"])


def seen(answer: Answer) -> tuple[int, str]:
    return answer.status, "" if answer.status == 200 else answer.code


def listed(asker: Asker) -> dict[str, dict[str, Any]]:
    return {key["name"]: key for key in asker.control("GET", "keys").json()["keys"]}


def test_the_secret_is_shown_once(asker: Asker) -> None:
    answer = asker.control("POST", "keys", {"name": "reader", "scopes": [READ], "accounts": 2})
    accounts = [asker.account_id(0), asker.account_id(1)]
    shown = {"name": "reader", "scopes": [READ], "accounts": accounts, "revoked": False}
    secret = answer.json()["secret"]
    assert (answer.status, answer.json()) == (201, {**shown, "secret": secret})
    assert asker.get(key=secret).status == 200
    listing = asker.control("GET", "keys")
    assert listed(asker)["reader"] == shown
    assert list(listed(asker)) == [*BUILT_IN, "reader"]
    revoking = asker.control("DELETE", "keys/reader")
    for answer in (listing, revoking, asker.control("GET", "keys"), asker.control("GET", "requests")):
        assert secret.encode() not in answer.body
        assert b"sandbox-demo-key" not in answer.body
    assert secret != made(asker, name="another")


def test_each_refusal_of_a_key_occurs_without_faults(asker: Asker) -> None:
    first, third = asker.account_id(0), asker.account_id(2)
    narrow = made(asker, name="narrow", scopes=[READ], accounts=2)
    unscoped = made(asker, name="unscoped", scopes=["metrics:read"])
    assert [seen(asker.media(one, key=narrow)) for one in (first, third)] == [
        (200, ""),
        (403, "api_account_not_granted"),
    ]
    assert len(asker.scan(key=narrow)) == 2
    assert (len(asker.scan(key=unscoped)), seen(asker.media(first, key=unscoped))) == (40, (403, "api_scope_denied"))
    gone = json.loads(asker.control("DELETE", "keys/narrow").body)
    assert (gone["name"], gone["revoked"]) == ("narrow", True)
    refused = asker.get(key=narrow)
    assert (seen(refused), refused.headers["www-authenticate"]) == ((401, "api_unauthorized"), "Bearer")
    assert seen(asker.media(first, key=narrow)) == (401, "api_unauthorized")


def test_a_revoked_key_is_still_listed_and_its_name_is_not_available(asker: Asker) -> None:
    made(asker, name="reader")
    for _ in range(2):
        assert asker.control("DELETE", "keys/reader").json()["revoked"] is True
    assert {name: key["revoked"] for name, key in listed(asker).items()} == dict.fromkeys(BUILT_IN, False) | {
        "reader": True
    }
    assert asker.control("POST", "keys", {"name": "reader"}).status == 400
    assert asker.control("DELETE", "keys/unknown").status == 404
    assert asker.control("DELETE", "keys/demo").json()["revoked"] is True
    assert asker.get().status == 401


def test_accounts_are_chosen_by_id_or_username_whatever_the_case_of_an_id(asker: Asker) -> None:
    accounts = asker.scan(limit=50)
    wanted = [accounts[3]["id"].upper(), accounts[7]["ig_username"]]
    secret = made(asker, name="chosen", accounts=wanted)
    assert [account["id"] for account in asker.scan(key=secret)] == [accounts[3]["id"], accounts[7]["id"]]
    assert listed(asker)["chosen"]["scopes"] == list(KEY_SCOPES)
    assert asker.scan(key=made(asker, name="none", accounts=[])) == []


def test_an_account_that_left_can_be_granted(build: Build) -> None:
    asker = build(day=5)
    catalogue = asker.sandbox.catalogue
    (left, *_) = set(range(40)) - {account.position for account in catalogue.accounts(5)}
    secret = made(asker, name="late", accounts=[catalogue.account_id(left)])
    assert asker.scan(key=secret) == []
    assert seen(asker.media(catalogue.account_id(left), key=secret)) == (404, "api_automation_media_not_found")


def test_a_grant_of_all_accounts_grows_with_the_catalogue_and_a_number_does_not(build: Build) -> None:
    asker = build(accounts=80)
    every, first = made(asker, name="every"), made(asker, name="first", accounts=80)
    asker.sandbox.day = 1
    assert {account["id"] for account in asker.scan(key=every)} - {account["id"] for account in asker.scan(key=first)}


@pytest.mark.parametrize(
    ("choices", "why"),
    [
        ({}, "needs a name"),
        ({"name": 7}, "needs a name"),
        ({"name": "a b"}, "not a key name"),
        ({"name": "x" * 65}, "not a key name"),
        (
            {"name": "x", "scopes": ["automation:read"]},
            "unknown scope 'automation:read'; the scopes are automations:read,",
        ),
        ({"name": "x", "scopes": "automations:read"}, "array of strings"),
        ({"name": "x", "accounts": True}, "array of strings, or a whole number"),
        ({"name": "x", "accounts": -1}, "at least 0"),
        ({"name": "x", "accounts": 41}, "41 accounts wanted, the catalogue has 40"),
        (
            {"name": "x", "accounts": ["0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11"]},
            "no account has the id or username '0b6f",
        ),
        ({"name": "x", "scope": []}, "unknown in key: scope"),
        ({"name": "demo"}, "issued before"),
    ],
)
def test_invalid_keys_are_refused(asker: Asker, choices: dict[str, object], why: str) -> None:
    answer = asker.control("POST", "keys", choices)
    assert answer.status == 400
    assert why in answer.json()["error"]
    assert list(listed(asker)) == BUILT_IN


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("reader", KeyRequest("reader")),
        ("reader/all", KeyRequest("reader")),
        ("reader/none/all", KeyRequest("reader", ())),
        (f"r/{READ},metrics:read/30", KeyRequest("r", (READ, "metrics:read"), 30)),
        ("r/none/0", KeyRequest("r", (), 0)),
        ("r/all/luca.motion,maple", KeyRequest("r", KEY_SCOPES, ("luca.motion", "maple"))),
    ],
)
def test_a_key_of_the_command_line(text: str, request_: KeyRequest) -> None:
    assert request_from_text(text) == request_


@pytest.mark.parametrize("text", ["", "/all", "a//1", "a/all/", "a/all/1/2", "a/nothing", "a/all,none", "a:b"])
def test_no_key_of_the_command_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"NAME/SCOPES/ACCOUNTS|unknown scope"):
        request_from_text(text)
