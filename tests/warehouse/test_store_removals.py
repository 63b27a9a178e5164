"""Which items and accounts a scan lists or misses, and which removals a run makes by itself."""

from datetime import timedelta

import pytest

from connectors.warehouse.queries.progress import find_known_items, read_closed_scans
from models.feeds import CATALOGUE, media
from tests.api.listed import uuid
from tests.warehouse.rig import BEN, POSTS, STORIES, Rig, account, item

# Hours after the scan before, and what it lists: "?" is a record without an id; with "!" the token expired meanwhile.
# The last two say what is missed, and what is removed.
SCANS = {
    "an hour apart": ("0 ab, 9 a, 1 a", "b", "b"),
    "within the hour": ("0 ab, 9 a, 0.9 a", "b", ""),
    "a sighting in between": ("0 ab, 2 a, 2 ab, 2 a", "b", ""),
    "a token that expired misses nothing": ("0 ab, 2 a!", "", ""),
    "and confirms nothing": ("0 ab, 2 a, 2 a!", "b", ""),
    "a rejected record misses nothing": ("0 ab, 2 a?", "", ""),
    "nor does it confirm": ("0 ab, 2 a, 2 a?", "b", ""),
}


@pytest.mark.parametrize(("scans", "missed", "removed"), SCANS.values(), ids=SCANS)
def test_what_scans_miss_and_confirm(rig: Rig, scans: str, missed: str, removed: str) -> None:
    for hours, listed in map(str.split, scans.split(", ")):
        rig.wait(float(hours))
        records = [{"no": "id"} if one == "?" else item(one) for one in listed.removesuffix("!")]
        rig.full_scan(*records, had_expired_token="!" in listed)
    rig.end_run()
    assert rig.values("media_id", "media WHERE missed_at IS NOT NULL") == list(missed)
    assert rig.values("media_id", "media WHERE removal = 'removed'") == list(removed)


def test_a_resumed_scan_that_a_backfill_overtook_decides_nothing(rig: Rig) -> None:
    sync = rig.begin()
    for number in range(3):
        sync.page(item(f"old-{number}"))
    rig.wait(12)
    rig.begin().close(item("old-0"), item("old-1"), item("old-2"), item("new"))
    rig.wait(12)
    sync.close(item("last"))
    rig.merge()
    assert rig.values("missed_at") == [None] * 5
    assert rig.rows("seq, began_seq", "closed_scans") == [(4, 4)]


def test_items_that_an_interrupted_backfill_found_are_not_known_to_a_recent_scan(rig: Rig) -> None:
    for listed in ("abc", "ab", "ab"):
        rig.full_scan(*map(item, listed))
        rig.wait(12)
    assert rig.end_run().removed_items == 1
    rig.begin().page(item("b", caption="changed"), item("unarchived"), item("c"))
    rig.merge()
    closed = read_closed_scans(rig.db, [POSTS.account_id])
    assert {scan.seq for scan in closed.values()} == {3}
    assert find_known_items(rig.db, closed, older_than=rig.now) == {POSTS: frozenset({"a", "b"})}


def test_a_recent_scan_covers_only_posts_after_its_last_one(rig: Rig) -> None:
    days = {name: f"2025-12-{day:02}T00:00:00Z" for day, name in enumerate(("oldest", "tied", "last", "newer"), 1)}
    days["tied"] = days["last"]
    posts = [item(name, timestamp=at) for name, at in days.items()]
    rig.full_scan(*posts)
    for _ in range(2):
        rig.wait(24)
        rig.full_scan(posts[2], state="recent", read_to=rig.now.fromisoformat(days["last"]))
    rig.end_run()
    assert rig.rows("media_id, removal") == [("last", None), ("newer", "removed"), ("oldest", None), ("tied", None)]
    [(covered_from, complete_at, recent_at)] = rig.rows("covered_from, complete_at, recent_at", "closed_scans")
    assert (covered_from.day, recent_at - complete_at) == (3, rig.now - complete_at)


def test_since_when_removals_are_undecided_is_kept_until_a_clean_scan(rig: Rig) -> None:
    rig.full_scan(item("a"), item("b"))
    rig.wait(2)
    rig.full_scan(item("a"), {"no": "id"})
    undecided = rig.now
    rig.wait(2)
    rig.full_scan(item("a"), {"no": "id"})
    assert rig.values("removals_undecided_since", "closed_scans") == [undecided]
    rig.wait(2)
    rig.full_scan(item("a"))
    assert rig.values("removals_undecided_since", "closed_scans") == [None]
    assert rig.rows("media_id, missed_at", order="ALL")[1] == ("b", rig.now)
    assert rig.values("finding", "scan_findings") == []


@pytest.mark.parametrize("pages", [["one two"], ["one", "two"], ["stored two"], ["stored", "two"], ["two", "stored"]])
@pytest.mark.parametrize(
    ("is_divided", "other"),
    [(False, {"permalink": "https://example.com/p/2/"}), (True, {"timestamp": "2025-12-02T00:00:00Z"})],
)
def test_items_of_one_id_that_differ_in_time_or_permalink_decide_no_removal(
    rig: Rig, pages: list[str], *, is_divided: bool, other: dict[str, str]
) -> None:
    stored = item("1", permalink="https://example.com/p/1/")
    rig.full_scan(stored, item("b"))
    rig.wait(2)
    records = {"stored": stored, "one": {**stored, "caption": "Another"}, "two": {**stored, **other}}
    scan = rig.begin()
    for page in pages:
        scan.page(*(records[name] for name in page.split()))
        if is_divided:
            rig.merge()
    scan.close(item("c"))
    rig.merge()
    assert rig.values("missed_at") == [None, None, None]
    assert rig.rows("finding, record_id", "scan_findings") == [("same_id", "1")]


def test_a_story_past_its_day_expires_at_once_and_a_younger_one_does_not(rig: Rig) -> None:
    old = item("old", timestamp=rig.now.isoformat())
    rig.full_scan(old, partition=STORIES)
    rig.wait(10)
    young = item("young", timestamp=rig.now.isoformat())
    rig.full_scan(old, young, partition=STORIES)
    rig.wait(15)
    rig.full_scan(partition=STORIES)
    assert rig.rows("media_id, removal, missed_at") == [("old", "expired", rig.now), ("young", None, rig.now)]
    assert rig.rows("media_id, event, changed_at", "events") == [("old", "expired", rig.now)]
    rig.wait(24)
    rig.full_scan(partition=STORIES)
    rig.end_run()
    assert rig.values("removal") == ["expired", "removed"]
    assert rig.rows("expired, removed, missed", "run_counts") == [(1, 1, 2)]


def test_an_item_that_returns_as_it_was_is_changed_by_that_run(rig: Rig) -> None:
    for listed in ("ab", "a", "a"):
        rig.full_scan(*map(item, listed))
        rig.wait(2)
    assert rig.end_run().removed_items == 1
    rig.full_scan(item("a"), item("b"))
    assert rig.rows("media_id, removal, run_seq") == [("a", None, 1), ("b", None, 2)]


def test_a_run_removes_little_by_itself(rig: Rig) -> None:
    posts = [item(f"{number:03}") for number in range(110)]
    rig.full_scan(*posts)
    for listed in (posts[12:],) * 3:
        rig.wait(24)
        rig.full_scan(*listed)
        removals = rig.end_run()
        assert (removals.removed_items, removals.missing_items, removals.too_many_items) == (0, 12, True)
        assert list(removals.accounts_with_too_many) == [POSTS.account_id]
    for listed, removed in ((posts[11:], 11), ([], 0), ([], 0)):
        rig.wait(24)
        rig.full_scan(*listed)
        assert rig.end_run().removed_items == removed
    assert rig.end_run(accept_removals=True).removed_items == 99


def test_an_account_with_more_than_twenty_items_is_held_while_others_are_not(rig: Rig) -> None:
    rig.full_scan(*(item(f"x{number}") for number in range(400)))
    posts = [item(f"{number:03}") for number in range(30)]
    # By account: the items that it has, and those that it has no more.
    sizes = {2: (30, 11), 3: (30, 10), 4: (20, 12)}
    feeds = {number: media(uuid(number), "posts") for number in sizes}
    for scan in range(3):
        for number, (size, gone) in sizes.items():
            rig.full_scan(*posts[gone if scan else 0 : size], partition=feeds[number])
        rig.wait(24)
    assert rig.end_run().removed_items == 10 + 12
    assert {*rig.values("account_id", "events")} == {feeds[3].account_id, feeds[4].account_id}


def test_accounts_missing_from_two_catalogues_twelve_hours_apart_are_removed(rig: Rig) -> None:
    rig.full_scan(account(), account(BEN), partition=CATALOGUE)
    for hours, removed in ((24, 0), (11, 0), (1, 1)):
        rig.wait(hours)
        rig.full_scan(account(), partition=CATALOGUE)
        assert rig.end_run().removed_accounts == removed
    assert rig.values("removed_at", "accounts", "account_id") == [None, rig.now - timedelta(hours=12)]
    rig.wait(1)
    rig.full_scan(account(), account(BEN), partition=CATALOGUE)
    assert rig.values("removed_at", "accounts") == [None, None]
    of_ben = f"account_periods WHERE account_id = '{BEN}' AND attribute = 'status'"
    periods = [("active", False), ("removed", False), ("active", True)]
    assert rig.rows("value, valid_to IS NULL", of_ben, "seq") == periods


def test_an_empty_catalogue_or_too_many_missing_accounts_wait_for_a_person(rig: Rig) -> None:
    accounts = [account(uuid(number)) for number in range(100)]
    scan = rig.begin(CATALOGUE)
    scan.page(*accounts[:50])
    scan.close(*accounts[50:])
    rig.end_run()
    for listed, missing in ((0, 0), (0, 0), (3, 97), (3, 97)):
        rig.wait(24)
        rig.full_scan(*accounts[:listed], partition=CATALOGUE)
        removals = rig.end_run()
        assert (removals.removed_accounts, removals.missing_accounts) == (0, missing)
        assert removals.too_many_accounts is (missing > 0)
    assert rig.end_run(accept_removals=True).removed_accounts == 97
    # Accounts keep the names that they had.
    assert {*rig.values("valid_to", "account_periods WHERE attribute = 'ig_username'")} == {None}
    rig.wait(24)
    rig.full_scan(partition=CATALOGUE)
    assert rig.end_run(accept_removals=True).removed_accounts == 3


def test_of_two_records_in_one_catalogue_the_first_counts(rig: Rig) -> None:
    for is_divided in (False, True, True):
        scan = rig.begin(CATALOGUE)
        scan.page(account(), account(BEN))
        if is_divided:
            rig.merge()
        scan.close(account(status="token_expired"))
        rig.merge()
        rig.wait(24)
    statuses = f"account_periods WHERE attribute = 'status' AND account_id = '{POSTS.account_id}'"
    assert rig.rows("value, run_seq", statuses) == [("active", 1)]
    assert rig.rows("finding, record_id, seq", "scan_findings") == [("listed_twice", POSTS.account_id, 6)]
