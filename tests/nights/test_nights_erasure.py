"""Forgetting and hiding: what is erased is found by the account's id, and what was hidden is never shown in silence."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.faults import change_page, refuse
from tests.api.listed import Records, account, uuid
from tests.nights.conftest import Operator

SECRET = "a caption that must stay hidden"


def renamed(*names: str) -> Callable[[Records], Records]:
    return lambda accounts: [{**account, "ig_username": name} for account, name in zip(accounts, names, strict=True)]


def with_field(**fields: Any) -> Callable[[Records], Records]:  # noqa: ANN401 - any JSON
    return lambda posts: [{**post, **fields} for post in posts]


def test_forgetting_an_account_keeps_what_is_of_the_one_that_took_its_name(operator: Operator) -> None:
    service = operator.connect(accounts=2, change_accounts=renamed("alpha", "beta"))
    operator.night("--surface", "posts")
    service.change_accounts = renamed("omega", "alpha")
    nameless = change_page(lambda page: {**page, "items": [{"caption": "no id", "username": "alpha"}, *page["items"]]})
    service.fault = lambda asked: nameless if asked.is_posts(2) else None
    operator.night("--surface", "posts", code=None)
    operator.run("backfill", "--account", "alpha", "--surface", "posts", "--reason", "a new campaign", code=None)
    kept = "SELECT account_id, payload FROM quarantine", "SELECT selection, reason FROM runs WHERE kind = 'backfill'"
    before = [operator.ask(query) for query in kept]
    assert all(before)
    operator.run("forget", uuid(1), "--yes")
    assert operator.count("accounts") == 1
    assert [operator.ask(query) for query in kept] == before


@pytest.mark.parametrize("name", ["the", "a"])
def test_forgetting_an_account_whose_name_is_a_word_changes_no_text(operator: Operator, name: str) -> None:
    service = operator.connect(accounts=2, posts=1, change_accounts=renamed("anna", name))
    service.fault = lambda asked: refuse("api_automation_media_not_found") if asked.is_posts(1) else None
    operator.night(code=3)
    operator.run("backfill", "--account", "anna", "--reason", "the owner of a scan asked", code=None)
    texts = (
        "SELECT detail FROM run_outcomes WHERE detail IS NOT NULL ORDER BY ALL",
        "SELECT reason FROM runs WHERE reason IS NOT NULL ORDER BY ALL",
    )
    before = [operator.ask(query) for query in texts]
    assert all(before)
    operator.run("forget", uuid(2), "--yes")
    assert [operator.ask(query) for query in texts] == before


@pytest.mark.parametrize(("command", "value"), [("rebuild", None), ("forget", None), ("sync", " "), ("publish", None)])
def test_what_the_last_snapshot_hid_is_not_shown_in_silence(
    operator: Operator, command: str, value: str | None
) -> None:
    operator.connect(accounts=2, posts=2, change_posts=with_field(caption=SECRET))
    operator.set(hide="caption")
    operator.night()
    assert SECRET not in operator.shown()
    operator.env["GRAMHOUSE_HIDE"] = value or ""
    if value is None:
        del operator.env["GRAMHOUSE_HIDE"]
    of = [uuid(2), "--yes"] if command == "forget" else []
    assert "GRAMHOUSE_HIDE" in operator.run(command, *of, code=3).text
    assert SECRET not in operator.shown()


def test_a_hidden_public_id_is_not_in_what_a_person_chose(operator: Operator) -> None:
    operator.connect(accounts=2, posts=1)
    public_id = account(1)["public_id"]
    operator.set(hide="public_id")
    operator.night()
    operator.run("backfill", "--account", public_id)
    assert public_id not in operator.shown()
    assert [file.name for file in operator.folder.glob("*.json") if public_id in file.read_text()] == []
