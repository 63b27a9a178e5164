"""Rule A: a run removes little by itself. What would be removed beyond a tenth, and more than 10, stays missed."""

from collections.abc import Callable
from typing import Any

import pytest

from connectors.sandbox.http.replies import PageRequest
from tests.nights.conftest import Operator
from tests.nights.service import Answer, Page, Service, is_media, items_of

REMOVED = "removed_at IS NOT NULL"
NOTHING: Page = {"items": [], "next_cursor": None}


def empty(request: PageRequest, _: Page) -> Answer:
    return NOTHING if is_media(request) else None


def empty_for_one(request: PageRequest, _: Page) -> Answer:
    return NOTHING if is_media(request, 1) else None


def other_ids(request: PageRequest, page: Page) -> Answer:
    return items_of(page, lambda item: {**item, "id": f"9{item['id']}"}) if is_media(request) else None


def three_accounts(request: PageRequest, page: Page) -> Answer:
    return None if is_media(request) else {**page, "items": page["items"][:3]}


# Of an account with few items, all may go; but not those of many such accounts. Accounts keep the names that they had.
@pytest.mark.parametrize(
    ("respond", "accounts", "posts", "table"),
    [
        (empty, 3, 30, "media"),
        (empty_for_one, 3, 30, "media"),
        (other_ids, 3, 30, "media"),
        (empty, 3, 12, "media"),
        (three_accounts, 24, 1, "accounts"),
    ],
)
def test_what_two_nights_do_not_list_waits_for_a_person(
    operator: Operator, respond: Callable[[PageRequest, Page], Answer], accounts: int, posts: int, table: str
) -> None:
    service = operator.connect(Service(accounts, posts))
    operator.night("--surface", "posts")
    service.respond = respond
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count(table, REMOVED) == 0
    operator.run("status", code=3)
    operator.night("--surface", "posts", "--accept-removals")
    assert operator.count(table, REMOVED) > 10
    assert operator.count("core.account_periods", "attribute = 'ig_username' AND valid_to IS NOT NULL") == 0


def second_account(page: Page, **changes: Any) -> Page:  # noqa: ANN401 - fields of an account
    first, second, *others = page["items"]
    return {**page, "items": [first, {**second, **changes}, *others]}


def test_an_account_whose_id_is_missing_from_two_lists_is_not_removed(operator: Operator) -> None:
    service = operator.connect(Service(accounts=3, posts=1))
    operator.night()
    service.respond = lambda request, page: None if is_media(request) else second_account(page, id=None)
    for _ in range(2):
        operator.night("--surface", "posts", code=3)
    assert operator.count("accounts", REMOVED) == 0
    assert service.names()[1] in operator.run("status", code=None).stdout


def test_a_key_that_sees_no_account_is_a_finding_from_the_first_night(operator: Operator) -> None:
    operator.connect(Service())
    operator.set(api_key="sandbox-no-account-key")
    for _ in range(2):
        operator.night(code=3)
    operator.run("status", code=3)


def test_an_account_that_is_listed_twice_with_two_statuses_does_not_change_every_night(operator: Operator) -> None:
    service = operator.connect(Service(accounts=2, posts=1))
    service.respond = lambda request, page: (
        None
        if request.account
        else {**page, "items": [*page["items"], {**page["items"][1], "status": "token_expired"}]}
    )
    name = service.names()[1]
    assert all(name in operator.night(code=3).text for _ in range(3))
    assert operator.count("account_status_history", f"ig_username = '{name}'") == 1


def test_a_story_without_a_time_expires_a_day_after_it_was_first_seen(operator: Operator) -> None:
    story = {"items": [{"id": "a story"}], "next_cursor": None}
    operator.connect(Service(accounts=1, posts=1)).respond = lambda request, _: (
        (NOTHING if operator.clock.passed else story) if is_media(request, surface="stories") else None
    )
    for _ in range(2):
        operator.night()
    assert operator.ask("SELECT removal FROM media WHERE media_id = 'a story'") == [("expired",)]
