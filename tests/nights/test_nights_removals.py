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


# Of an account with few items, all may go; but not those of many such accounts.
@pytest.mark.parametrize(("respond", "posts"), [(empty, 30), (empty_for_one, 30), (other_ids, 30), (empty, 12)])
def test_items_that_two_nights_do_not_list_wait_for_a_person(
    operator: Operator, respond: Callable[[PageRequest, Page], Answer], posts: int
) -> None:
    service = operator.connect(Service(accounts=3, posts=posts))
    assert operator.sync().code == 0
    service.respond = respond
    codes = [operator.sync().code, operator.sync().code]
    assert (operator.count("media", REMOVED), codes) == (0, [3, 3])
    assert operator.run("status").code == 3
    assert operator.sync("--accept-removals").code == 0
    assert operator.count("media", REMOVED) > 10


def test_accounts_that_two_nights_do_not_list_wait_for_a_person(operator: Operator) -> None:
    service = operator.connect(Service(accounts=24, posts=1))
    assert operator.sync("--surface", "posts").code == 0
    service.respond = lambda request, page: None if is_media(request) else {**page, "items": page["items"][:3]}
    codes = [operator.sync("--surface", "posts").code for _ in range(2)]
    assert (operator.count("accounts", REMOVED), codes) == (0, [3, 3])
    assert operator.run("status").code == 3
    assert operator.sync("--surface", "posts", "--accept-removals").code == 0
    assert operator.count("accounts", REMOVED) == 21
    # They keep the names that they had.
    assert operator.count("core.account_periods", "attribute = 'ig_username' AND valid_to IS NOT NULL") == 0


def second_account(page: Page, **changes: Any) -> Page:  # noqa: ANN401 - fields of an account
    first, second, *others = page["items"]
    return {**page, "items": [first, {**second, **changes}, *others]}


def test_an_account_whose_id_is_missing_from_two_lists_is_not_removed(operator: Operator) -> None:
    service = operator.connect(Service(accounts=3, posts=1))
    operator.sync()
    service.respond = lambda request, page: None if is_media(request) else second_account(page, id=None)
    codes = [operator.sync("--surface", "posts").code for _ in range(2)]
    assert operator.count("accounts", REMOVED) == 0
    assert codes == [3, 3]
    assert service.names()[1] in operator.run("status").out


def test_a_key_that_sees_no_account_is_a_finding_from_the_first_night(operator: Operator) -> None:
    operator.connect(Service())
    operator.set(api_key="sandbox-no-account-key")
    assert [operator.sync().code, operator.sync().code, operator.run("status").code] == [3, 3, 3]


def test_an_account_that_is_listed_twice_with_two_statuses_does_not_change_every_night(operator: Operator) -> None:
    def twice(request: PageRequest, page: Page) -> Answer:
        if request.account is not None:
            return None
        return {**page, "items": [*page["items"], {**page["items"][1], "status": "token_expired"}]}

    service = operator.connect(Service(accounts=2, posts=1))
    service.respond = twice
    done = [operator.sync() for _ in range(3)]
    name = service.names()[1]
    assert operator.count("account_status_history", f"ig_username = '{name}'") == 1
    assert [one.code for one in done] == [3, 3, 3]
    assert name in done[-1].text


def test_a_story_without_a_time_expires_a_day_after_it_was_first_seen(operator: Operator) -> None:
    def without_times(request: PageRequest, page: Page) -> Answer:
        is_second = operator.clock.passed > 0
        if not is_media(request, surface="stories"):
            return None
        return NOTHING if is_second else {**page, "items": [{"id": "a story"}], "next_cursor": None}

    operator.connect(Service(accounts=1, posts=1)).respond = without_times
    assert [operator.sync().code, operator.sync().code] == [0, 0]
    assert operator.ask("SELECT removal FROM media WHERE media_id = 'a story'") == [("expired",)]
