"""What commands say and print: one clear line for each wrong input, and nothing that is not so."""

import pytest

from tests.api.listed import daily
from tests.nights.conftest import Operator


@pytest.mark.parametrize("query", [b"SELECT \xff", b"\x80", b"SELECT 'caf\xe9'"])
def test_a_query_that_is_not_utf_8_is_one_line(operator: Operator, query: bytes) -> None:
    operator.connect(accounts=1, posts=1)
    operator.run("sync")
    operator.type(query)
    [line] = operator.run("query", "-", code=2).stderr.splitlines()
    assert "UTF-8" in line


def test_explain_does_not_promise_a_scan_of_an_unknown_status(operator: Operator) -> None:
    service = operator.connect(accounts=2, posts=1)
    operator.night()
    service.change_accounts = lambda accounts: [accounts[0], {**accounts[1], "status": "paused"}]
    operator.run("sync", code=None)
    [found] = operator.run("explain", "user_2", "--json").json()["found"]
    assert found["account"]["status"] == "paused"
    assert {(each["next_scan"], each["next_reason"]) for each in found["surfaces"]} == {("none", "unknown_status")}


def test_explain_names_the_scans_that_removed_an_item(operator: Operator) -> None:
    feed = daily(60, per_day=24)
    operator.connect(accounts=1, feeds={1: feed})
    operator.set(page_size="10", lookback_window="0")
    for night in range(5):
        feed.posts[-5].is_deleted = night >= 3
        operator.night("--incremental", "--surface", "posts", code=None)
    assert operator.count("run_outcomes", "outcome = 'recent'") >= 2
    assert operator.count("media", "removed_at IS NOT NULL") == 1
    text = operator.run("explain", f"1-{feed.posts[-5].number}").text
    assert [each in text for each in ("Removed", "recent", "two complete scans")] == [True, True, False]
