"""A backfill walks a partition amid the sync's walk of it: neither disturbs the other, and no item is lost to both."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from connectors.warehouse import progress, retry
from connectors.warehouse.rebuild import rebuild_stored
from models.mapping_built_in import BUILT_IN
from models.partition import CATALOGUE
from models.walk import Lane
from tests.warehouse.house import ANNA, BEN, POSTS, House, Item, Walk, account, at

GONE = "SELECT media_id, removed_at FROM core.media WHERE removed_at IS NOT NULL ORDER BY media_id"
ENDED = "SELECT walk_id, complete_at FROM core.walks"


def posts(*numbers: int) -> list[Item]:
    return [{"id": str(number)} for number in numbers]


class Lanes:
    """A house in which pages of both lanes are folded as they come, or all at once."""

    def __init__(self, house: House, *, fold_each: bool) -> None:
        self.house = house
        self.fold_each = fold_each

    def page(self, walk: Walk, when: datetime, *numbers: int, last: bool = False) -> None:
        self.house.land(walk.page(posts(*numbers), when, last=last))
        if self.fold_each:
            self.house.fold()

    def begun(self, walk_id: str, hour: float, *numbers: int, lane: Lane = "sync") -> Walk:
        """A walk that has landed its first page."""
        walk = Walk(POSTS, walk_id, at(hour), lane=lane)
        self.page(walk, at(hour) + timedelta(minutes=1), *numbers)
        return walk

    def whole(self, walk_id: str, hour: float, *numbers: int, lane: Lane = "backfill") -> None:
        self.page(Walk(POSTS, walk_id, at(hour), lane=lane), at(hour) + timedelta(minutes=1), *numbers, last=True)


@pytest.fixture(params=[True, False], ids=["folded page by page", "folded at once"])
def lanes(request: pytest.FixtureRequest, house: House) -> Lanes:
    return Lanes(house, fold_each=request.param)


def test_a_backfill_leaves_the_checkpoint_of_a_sync_half_way(lanes: Lanes) -> None:
    half_way = lanes.begun("sync", 0, 1)
    lanes.whole("backfill", 1, 1, 2)
    again = lanes.begun("again", 2, 1, lane="backfill")
    lanes.house.fold()
    with lanes.house.connection.begin():
        connection = lanes.house.connection
        assert progress.checkpoints(connection, "media", [ANNA]) == {POSTS: half_way.checkpoint}
        assert progress.checkpoints(connection, "media", [ANNA], "sync") == {POSTS: half_way.checkpoint}
        assert progress.checkpoints(connection, "media", [ANNA], lane="backfill") == {POSTS: again.checkpoint}
    assert lanes.house.value("SELECT count(*) FROM ops.checkpoints") == 2


def test_an_overtaken_walk_marks_nothing_of_what_came_since_it_began(lanes: Lanes) -> None:
    lanes.whole("before", 0, 1, 2, 3, 4, lane="sync")
    sync = lanes.begun("sync", 24, 1, 2)
    lanes.whole("backfill", 25, 9, 1, 2, 3, 4)
    lanes.page(sync, at(26), 3, 4, last=True)
    lanes.house.fold()
    assert lanes.house.rows(GONE) == []
    lanes.whole("next", 48, 9, 1, 2, 3, lane="sync")
    lanes.house.fold()
    assert lanes.house.rows(GONE) == [("4", at(48) + timedelta(minutes=1))]


def test_an_overtaken_walk_marks_nothing_that_came_back_since_it_began(lanes: Lanes) -> None:
    lanes.whole("first", 0, 1, 2, 3, 4, lane="sync")
    lanes.whole("second", 12, 1, 2, 3, lane="sync")
    sync = lanes.begun("sync", 24, 1)
    lanes.whole("backfill", 25, 1, 2, 3, 4)
    lanes.page(sync, at(26), 2, 3, last=True)
    lanes.house.fold()
    assert lanes.house.rows(GONE) == []


def test_an_overtaken_walk_does_not_vouch_for_what_it_did_not_see(lanes: Lanes) -> None:
    """complete_at stays at the end of the walk that saw it all, and never goes backward."""
    ends: list[datetime] = []
    lanes.whole("before", 0, 1, lane="sync")
    sync = lanes.begun("sync", 24, 1)
    for hour, walk_id in ((25, "backfill"), (27, "another")):
        lanes.whole(walk_id, hour, 1, 9)
        lanes.house.fold()
        ((walk, end),) = lanes.house.rows(ENDED)
        assert walk == walk_id
        ends.append(end)
    lanes.page(sync, at(28), last=True)
    lanes.house.fold()
    assert lanes.house.rows(ENDED) == [("another", ends[-1])]
    lanes.whole("next", 48, 1, 9, lane="sync")
    lanes.house.fold()
    ends.append(lanes.house.rows(ENDED)[0][1])
    assert ends == sorted(ends)
    assert lanes.house.value("SELECT count(*) FROM ops.seen") == 0


def test_a_walk_does_not_miss_what_one_that_broke_off_found_since_it_began(lanes: Lanes) -> None:
    """New, and back again: the backfill never came to its end, so the sync's walk judges the rest."""
    lanes.whole("first", 0, 1, 2, 3, 4, 5, lane="sync")
    lanes.whole("second", 12, 1, 2, 3, 4, lane="sync")
    sync = lanes.begun("sync", 24, 1, 2)
    lanes.begun("backfill", 25, 9, 5, 1, lane="backfill")
    lanes.page(sync, at(26), 3, last=True)
    lanes.house.fold()
    assert lanes.house.rows(GONE) == [("4", at(26))]
    assert lanes.house.rows(ENDED) == [("sync", at(26))]


def test_what_was_known_when_a_backfill_began_it_judges_although_a_sync_is_half_way(lanes: Lanes) -> None:
    lanes.whole("before", 0, 1, 2, 3, lane="sync")
    lanes.begun("sync", 24, 9, 1)
    lanes.whole("backfill", 25, 1, 2)
    lanes.house.fold()
    assert lanes.house.rows(GONE) == [(n, at(25) + timedelta(minutes=1)) for n in ("3", "9")]


def test_what_an_overtaken_walk_sees_after_all_is_back(lanes: Lanes) -> None:
    lanes.whole("before", 0, 1, 2, 3, lane="sync")
    sync = lanes.begun("sync", 24, 1)
    lanes.whole("backfill", 25, 1, 2)
    lanes.page(sync, at(26), 2, 3, last=True)
    lanes.house.fold()
    assert lanes.house.rows(GONE) == []


def test_an_overtaken_walk_neither_confirms_nor_settles_a_mass_disappearance(lanes: Lanes) -> None:
    lanes.whole("before", 0, 1, 2, 3, 4, lane="sync")
    sync = lanes.begun("sync", 24, 1)
    lanes.whole("backfill", 25, 1)
    lanes.page(sync, at(26), 2, last=True)
    lanes.house.fold()
    doubts = "SELECT media_id, since FROM ops.missing ORDER BY 1"
    since = at(25) + timedelta(minutes=1)
    assert lanes.house.rows(GONE) == []
    assert lanes.house.rows(doubts) == [("3", since), ("4", since)]
    lanes.whole("next", 48, 1, 2, lane="sync")
    lanes.house.fold()
    assert lanes.house.rows(GONE) == [("3", since), ("4", since)]
    assert lanes.house.rows(doubts) == []


def test_an_overtaken_walk_puts_nothing_in_doubt(lanes: Lanes) -> None:
    lanes.whole("before", 0, 1, 2, 3, 4, lane="sync")
    sync = lanes.begun("sync", 24, 1)
    lanes.whole("backfill", 25, 1, 2, 3, 4)
    lanes.page(sync, at(26), last=True)
    lanes.house.fold()
    assert lanes.house.rows("FROM ops.missing") == []
    lanes.whole("next", 48, 1, lane="sync")
    lanes.house.fold()
    assert lanes.house.rows(GONE) == []


def test_an_end_long_settled_is_not_settled_again_by_the_other_lanes(house: House) -> None:
    house.walk(POSTS, "sync", 0, posts(1, 2, 3))
    backfill = Walk(POSTS, "backfill", at(24), lane="backfill")
    house.land(backfill.page(posts(1, 2), at(24), last=True))
    house.fold()
    before = house.rows(ENDED)
    for hour in (48, 49):
        house.land(Walk(POSTS, f"half-{hour}", at(hour)).page(posts(4), at(hour)))
        assert house.fold().removed == 0
        assert house.rows(ENDED) == before == [("backfill", at(24))]


def test_an_account_that_another_walk_of_the_catalogue_listed_since_is_not_gone(house: House) -> None:
    house.catalogue("before", 0, [account(ANNA), account(BEN), account("c")])
    sync = Walk(CATALOGUE, "sync", at(24))
    backfill = Walk(CATALOGUE, "backfill", at(25), lane="backfill")
    house.land(sync.page([account(ANNA)], at(24)), backfill.page([account(ANNA), account(BEN)], at(25)))
    house.land(sync.page([], at(26), last=True))
    house.fold()
    assert house.rows("SELECT account_id, removed_at FROM core.accounts ORDER BY 1") == [
        (ANNA, None), (BEN, None), ("c", at(26)),
    ]  # fmt: skip
    house.land(backfill.page([], at(27), last=True))
    house.fold()
    assert house.rows("SELECT walk_id FROM core.walks") == [("sync",)]
    assert house.value("SELECT count(*) FROM core.accounts WHERE removed_at IS NULL") == 2


def test_what_is_read_again_from_quarantine_counts_as_seen_by_both_lanes(house: House) -> None:
    by_key = replace(BUILT_IN, media_id=("/key",))
    sync, backfill = Walk(POSTS, "sync", at(0)), Walk(POSTS, "backfill", at(2), lane="backfill")
    odd = [{"key": "odd"}]
    house.land(sync.page(odd, at(1)), backfill.page(odd, at(3)))
    house.fold()
    assert house.value("SELECT count(*) FROM core.media") == 0
    with house.connection.begin():
        rebuild_stored(house.connection, by_key)
    with house.connection.begin():
        plan = retry.plan_retry(house.connection)
        for batch in plan.batches:
            retry.retry(house.connection, batch, run_id="a retry", now=at(4))
    assert (plan.records, plan.items) == (1, 1)
    seen = "SELECT walk_id, media_id FROM ops.seen WHERE media_id <> '' ORDER BY 1"
    assert house.rows(seen) == [("backfill", "odd"), ("sync", "odd")]
    house.land(backfill.page([], at(5), last=True))
    house.fold()
    assert house.rows(GONE) == []
