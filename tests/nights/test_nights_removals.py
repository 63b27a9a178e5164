"""Rule A: a run removes little by itself. What would be removed beyond a tenth, and more than 10, stays missed."""

from typing import Any

import pytest

from tests.api.listed import Feed, Records
from tests.nights.conftest import Operator

REMOVED = "removed_at IS NOT NULL"


def other_ids(posts: Records) -> Records:
    return [{**post, "id": f"9{post['id']}"} for post in posts]


# Of an account with few items, all may go; but not those of many such accounts. Accounts keep the names that they had.
@pytest.mark.parametrize(
    ("accounts", "posts", "change"),
    [
        (3, 30, {"change_posts": lambda _: []}),
        (3, 30, {"feeds": {2: Feed()}}),
        (3, 30, {"change_posts": other_ids}),
        (3, 12, {"change_posts": lambda _: []}),
        (24, 1, {"change_accounts": lambda accounts: accounts[:3]}),
    ],
)
def test_what_two_nights_do_not_list_waits_for_a_person(
    operator: Operator, accounts: int, posts: int, change: dict[str, Any]
) -> None:
    service, table = operator.connect(accounts=accounts, posts=posts), "accounts" if accounts > 3 else "media"
    operator.night("--surface", "posts")
    vars(service).update(change)
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count(table, REMOVED) == 0
    operator.run("status", code=3)
    operator.night("--surface", "posts", "--accept-removals")
    assert operator.count(table, REMOVED) > 10
    assert operator.count("core.account_periods", "attribute = 'ig_username' AND valid_to IS NOT NULL") == 0


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
    for _ in range(2):
        operator.night(code=3)
    operator.run("status", code=3)


def test_a_story_without_a_time_expires_a_day_after_it_was_first_seen(operator: Operator) -> None:
    service = operator.connect(accounts=1, posts=1, stories=1)
    for service.stories in (1, 0):
        operator.night()
    assert operator.ask("SELECT removal FROM media WHERE surface = 'stories'") == [("expired",)]
