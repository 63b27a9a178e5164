"""A run removes little by itself; what is erased is found by the account's id; and nothing is shown in silence."""

import pytest

from tests.api.faults import change_page, refuse
from tests.api.listed import account, uuid
from tests.nights.conftest import Operator

REMOVED = "removed_at IS NOT NULL"
SECRET = "a caption that must stay hidden"


def test_what_two_nights_do_not_list_waits_for_a_person(operator: Operator) -> None:
    # Of an account with few items, all may go; but not those of many such accounts.
    service = operator.connect(accounts=3, posts=12)
    operator.night("--surface", "posts")
    service.change_posts = lambda _: []
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count("media", REMOVED) == 0
    operator.run("status", code=3)
    operator.night("--surface", "posts", "--accept-removals")
    assert operator.count("media", REMOVED) == 3 * 12


def test_an_account_whose_id_is_missing_from_two_lists_is_not_removed(operator: Operator) -> None:
    service = operator.connect(posts=1)
    operator.night()
    service.change_accounts = lambda accounts: [accounts[0], {**accounts[1], "id": None}, accounts[2]]
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count("accounts", REMOVED) == 0
    assert "user_2" in operator.run("status", code=None).stdout


def test_a_key_that_sees_no_account_is_a_finding_from_the_first_night(operator: Operator) -> None:
    operator.connect(accounts=0)
    operator.night(code=3)
    operator.run("status", code=3)


def test_forgetting_an_account_keeps_what_is_of_the_one_that_took_its_name(operator: Operator) -> None:
    def rename(*names: str) -> None:
        service.change_accounts = lambda accounts: [
            {**one, "ig_username": name} for one, name in zip(accounts, names, strict=True)
        ]

    service = operator.connect(accounts=2)
    rename("alpha", "beta")
    operator.night("--surface", "posts")
    rename("omega", "alpha")
    nameless = change_page(lambda page: {**page, "items": [{"caption": "no id", "username": "alpha"}, *page["items"]]})
    service.fault = lambda asked: nameless if asked.is_posts(2) else None
    operator.night("--surface", "posts", code=None)
    operator.run("backfill", "--account", "alpha", "--surface", "posts", "--reason", "a new campaign", code=None)
    # A name that is a word changes no text, and one that is a feed's no selection of a sync.
    rename("posts", "alpha")
    operator.night(code=None)
    rename("the", "alpha")
    service.fault = lambda asked: refuse("api_automation_media_not_found") if asked.is_posts(2) else None
    operator.night(code=None)
    operator.run("backfill", "--account", "alpha", "--reason", "the owner of a scan asked", code=None)
    kept = (
        "SELECT account_id, payload FROM quarantine",
        "SELECT selection, reason FROM runs ORDER BY ALL",
        f"SELECT detail FROM run_outcomes WHERE detail IS NOT NULL AND account_id = '{uuid(2)}' ORDER BY ALL",
    )
    before = [operator.ask(query) for query in kept]
    assert all(before)
    operator.run("forget", uuid(1), "--yes")
    assert operator.count("accounts") == 1
    assert [operator.ask(query) for query in kept] == before


@pytest.mark.parametrize(("command", "value"), [("forget", None), ("sync", " ")])
def test_what_the_last_snapshot_hid_is_not_shown_in_silence(
    operator: Operator, command: str, value: str | None
) -> None:
    operator.connect(accounts=2, posts=1, change_posts=lambda posts: [{**post, "caption": SECRET} for post in posts])
    operator.set(hide="caption,public_id")
    operator.night()
    # Nor is what a person chose.
    public_id = account(1)["public_id"]
    if command == "sync":
        operator.run("backfill", "--account", public_id)
        assert [file.name for file in operator.folder.glob("*.json") if public_id in file.read_text()] == []
    del operator.env["GRAMHOUSE_HIDE"]
    if value is not None:
        operator.set(hide=value)
    of = [uuid(2), "--yes"] if command == "forget" else []
    assert "GRAMHOUSE_HIDE" in operator.run(command, *of, code=3).text
    shown = operator.shown()
    assert (SECRET in shown, public_id in shown) == (False, False)
