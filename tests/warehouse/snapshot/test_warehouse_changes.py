"""The views `changes` and `account_changes`: what each run found."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from connectors.warehouse.queries.reader import open_snapshot
from models.feeds import CATALOGUE, Partition
from tests.warehouse.days import ANNA, BEN, POSTS, STORIES, Days, Item, Row, account, at

CHANGES = 'SELECT run_id, media_id, change, "columns" FROM changes ORDER BY run_seq, media_id, changed_at, change'
CHILD = {"children": [{"id": "c"}]}
ONE, TWO = {"id": "1", "caption": "one", "like_count": 1}, {"id": "2", "caption": "two", "like_count": 1, **CHILD}


def scans(days: Days, *each: tuple[Partition, float, str, Sequence[Item]]) -> None:
    for run_id, of_run in groupby(each, key=lambda one: one[2]):
        days.run(run_id, 0, {}, *((partition, hour, items) for partition, hour, _, items in of_run))


def published(days: Days, folder: Path, *queries: str, hide: Sequence[str] = ()) -> list[list[Row]]:
    days.publish(folder / "analytics.duckdb", hide=hide, may_show=True)
    with open_snapshot(folder / "analytics.duckdb") as opened:
        return [opened.db.execute(query).fetchall() for query in queries]


def test_each_item_has_a_row_for_each_run_that_found_something_new(days: Days, tmp_path: Path) -> None:
    scans(
        days,
        (POSTS, 0, "run-0", [ONE, TWO, {"id": "3"}]),
        # Content and counts at once; counts alone; children alone, together with a field that is new.
        (POSTS, 24, "run-1", [ONE | {"caption": "1", "like_count": 2}, TWO | {"like_count": 2}, {"id": "3", **CHILD}]),
        # Several changes of an item in one run, the last of which takes one back.
        (POSTS, 48, "run-2", [ONE | {"caption": "2", "extra": "x"}, TWO, {"id": "3", **CHILD}]),
        (POSTS, 49, "run-2", [ONE | {"caption": "3"}, TWO | {"like_count": 3}, {"id": "3", **CHILD}]),
    )
    rows = [
        ("run-0", "1", "new", None), ("run-0", "2", "new", None), ("run-0", "3", "new", None),
        ("run-1", "1", "changed", ["caption"]), ("run-1", "2", "counted", None),
        ("run-1", "3", "changed", ["children"]),
        ("run-2", "1", "changed", ["caption", "extra"]), ("run-2", "2", "counted", None),
    ]  # fmt: skip
    assert published(days, tmp_path, CHANGES) == [rows]


def test_removals_are_kept_when_an_item_returns(days: Days, tmp_path: Path) -> None:
    story = {"id": "s", "published_at": at(-20).isoformat()}
    scans(
        days,
        (POSTS, 0, "run-0", [ONE, TWO]),
        (STORIES, 1, "run-0", [story]),
        *((POSTS, hour, "run-0", [TWO]) for hour in (2, 24)),
        (STORIES, 25, "run-1", []),
        # It returns with other content, the story as it was; then both are gone again.
        (POSTS, 26, "run-1", [ONE | {"caption": "1"}, TWO]),
        (STORIES, 27, "run-2", [story]),
        *((POSTS, hour, "run-2", [TWO]) for hour in (28, 48)),
        (STORIES, 49, "run-2", []),
    )
    [rows, numbers, times] = published(
        days, tmp_path, f"FROM ({CHANGES}) WHERE media_id <> '2'",
        "SELECT run_id, added, changed, removed, expired, returned FROM runs ORDER BY seq",
        "SELECT change, changed_at FROM changes WHERE media_id = '1' AND starts_with(change, 're') ORDER BY ALL",
    )  # fmt: skip
    assert rows == [
        ("run-0", "1", "new", None), ("run-0", "1", "removed", None), ("run-0", "s", "new", None),
        ("run-1", "1", "changed", ["caption"]), ("run-1", "1", "returned", None), ("run-1", "s", "expired", None),
        ("run-2", "1", "removed", None), ("run-2", "s", "returned", None), ("run-2", "s", "expired", None),
    ]  # fmt: skip
    assert numbers == [("run-0", 3, 0, 1, 0, 0), ("run-1", 0, 1, 0, 1, 1), ("run-2", 0, 0, 1, 1, 1)]
    assert times == [("removed", at(2)), ("removed", at(28)), ("returned", at(26))]


ACCOUNTS = """
SELECT run_id, change, old_ig_username, new_ig_username FROM account_changes ORDER BY run_seq, changed_at, change DESC
"""


def test_accounts_are_renamed_and_back_and_removed_and_listed_again(days: Days, tmp_path: Path) -> None:
    other = account(BEN, name="other")
    scans(
        days,
        (CATALOGUE, 0, "run-0", [account(), other]),
        (CATALOGUE, 1, "run-0", [account(name="anna2", status="token_expired"), other]),
        (CATALOGUE, 2, "run-1", [account(), other]),
        *((CATALOGUE, hour, "run-1", [other]) for hour in (3, 16)),
        (CATALOGUE, 17, "run-2", [account(status="token_expired"), other]),
    )
    query = f"FROM ({ACCOUNTS}) WHERE run_id <> 'run-0' OR change <> 'new'"
    assert published(days, tmp_path, query)[0] == [
        ("run-0", "token_expired", None, None), ("run-0", "renamed", "anna", "anna2"),
        ("run-1", "renamed", "anna2", "anna"), ("run-1", "active", None, None), ("run-1", "removed", None, None),
        ("run-2", "token_expired", None, None), ("run-2", "returned", None, None),
    ]  # fmt: skip
    names = (
        "SELECT DISTINCT old_ig_username, new_ig_username, ig_username FROM account_changes WHERE change = 'renamed'"
    )
    assert published(days, tmp_path, names, hide=["ig_username"]) == [[(ANNA, ANNA, ANNA)]]
    hashed = "SELECT a.old_ig_username = b.new_ig_username AND length(a.old_ig_username) = 32 FROM account_changes"
    same = f"{hashed} AS a JOIN account_changes AS b ON a.new_ig_username = b.old_ig_username"
    assert published(days, tmp_path, same, hide=["username:hash"]) == [[(True,), (True,)]]
