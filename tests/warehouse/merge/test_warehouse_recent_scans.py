"""Merges of recent scans: they decide only about posts published after `covered_from`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from connectors.warehouse.runs.closed_scans import closed_scans, forget_order, full_scans_due, known_items
from models.checkpoint import ScanState
from models.partition import media
from tests.warehouse.rig import ANNA, POSTS, Item, Rig, Row, Scan, account, at

GONE = "SELECT media_id, removed_at FROM core.media WHERE removed_at IS NOT NULL ORDER BY media_id"
SCAN = """
SELECT complete_at, recent_at, covered_from, item_order, order_proofs, removals_undecided_since
FROM core.completed_scans
"""
NAMELESS: Item = {"id": None, "timestamp": at(-1).isoformat()}


def posts(*hours: int) -> list[Item]:
    """Posts published the given numbers of hours ago, which are also their ids."""
    return [{"id": str(hour), "timestamp": at(-hour).isoformat()} for hour in hours]


def scan(
    rig: Rig,
    name: str,
    hour: float,
    items: Sequence[Item],
    *,
    down_to: int | None = None,
    broken_by: str | None = None,
) -> None:
    """A scan of one page; recent if `down_to`, the age of its last post, is given."""
    open_scan = Scan(POSTS, name, at(hour))
    read_to = at(-down_to) if down_to is not None else at(-1000)
    landing = open_scan.page(items, at(hour), last=down_to is None)
    assert landing.checkpoint is not None
    state = ScanState.COMPLETE if down_to is None else ScanState.RECENT
    message = replace(landing.checkpoint, state=state, read_to=read_to, order_broken_by=broken_by, cursor=None)
    rig.record(replace(landing, checkpoint=message))


def scan_of(rig: Rig) -> Row:
    return rig.row(SCAN)


def test_an_item_that_is_seen_again_is_no_longer_missing(rig: Rig) -> None:
    scan(rig, "a", 0, posts(10, 20, 30, 40))
    scan(rig, "b", 24, posts(10, 30), down_to=30)
    scan(rig, "c", 48, posts(10, 20, 30), down_to=30)
    scan(rig, "d", 72, posts(10, 30), down_to=30)
    assert rig.rows(GONE) == []


def test_removals_that_a_full_scan_left_undecided_stay_undecided_after_a_recent_scan(rig: Rig) -> None:
    scan(rig, "a", 0, posts(10, 20, 30, 40))
    scan(rig, "b", 24, [*posts(10, 20, 30), NAMELESS])
    assert scan_of(rig)[5] == at(24)
    scan(rig, "c", 48, posts(10, 20), down_to=20)
    assert scan_of(rig)[5] == at(24)


def test_removed_posts_are_not_known_territory(rig: Rig) -> None:
    scan(rig, "a", 0, posts(10, 20, 30))
    scan(rig, "b", 24, posts(10, 30))
    scan(rig, "c", 48, posts(10, 30))
    assert rig.rows(GONE) == [("20", at(24))]
    closed = rig.call(closed_scans, [ANNA])
    assert rig.call(known_items, closed, older_than=at(0)) == {POSTS: frozenset({"10", "30"})}


def test_a_new_mapping_makes_the_next_scan_full(rig: Rig) -> None:
    scan(rig, "a", 0, posts(10, 20, 30))
    scan(rig, "b", 24, posts(10), down_to=10)
    rig.call(forget_order)
    assert scan_of(rig)[:5] == (at(0), None, None, None, 1)


def test_full_scans_are_due_by_their_share_of_the_interval(rig: Rig) -> None:
    rig.catalogue("c", 0, [account()])
    scan(rig, "a", 0, posts(10))
    rig.do("UPDATE core.completed_scans SET pages = 12, full_share = 0.5 WHERE surface = 'posts'")
    every = timedelta(hours=100)
    assert rig.call(full_scans_due, now=at(49.9), every=every) == []
    assert rig.call(full_scans_due, now=at(50), every=every) == [(0.5, 12)]


def test_first_full_scans_of_one_day_get_different_shares_of_the_interval(rig: Rig) -> None:
    for number in range(20):
        first = Scan(media(f"{number:08}-2222-4333-8444-555555555555", "posts"), f"scan-{number}", at(0))
        rig.land(first.page(posts(10, 20), at(0), last=True))
    rig.merge()
    shares = [share for (share,) in rig.rows("SELECT full_share FROM core.completed_scans")]
    assert len(set(shares)) == 20
    assert all(0 < share <= 1 for share in shares)
    assert 0.3 < sum(shares) / 20 < 0.7
