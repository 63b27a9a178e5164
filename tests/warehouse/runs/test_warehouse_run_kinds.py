"""A backfill during a sync's scan of the same partition: neither disturbs the other, and no item is lost."""

from datetime import datetime

import pytest

from models.checkpoint import RunKind
from models.partition import CATALOGUE
from tests.warehouse.rig import ANNA, BEN, POSTS, Rig, Scan, account, at, minute, posts

MISSING = "SELECT media_id, missing_since FROM ops.missing ORDER BY 1"
GONE = "SELECT media_id, removed_at FROM core.media WHERE removed_at IS NOT NULL ORDER BY media_id"
ENDED = "SELECT scan_id, complete_at FROM core.completed_scans"


class RunKinds:
    """A rig that merges pages of both run kinds one by one, or all at once."""

    def __init__(self, rig: Rig, *, merge_each: bool) -> None:
        self.rig = rig
        self.merge_each = merge_each

    def page(self, scan: Scan, when: datetime, *numbers: int, last: bool = False) -> None:
        self.rig.land(scan.page(posts(*numbers), when, last=last))
        if self.merge_each:
            self.rig.merge()

    def begun(self, scan_id: str, hour: float, *numbers: int, run_kind: RunKind = "sync") -> Scan:
        """A scan that has landed its first page."""
        scan = Scan(POSTS, scan_id, at(hour), run_kind=run_kind)
        self.page(scan, minute(hour), *numbers)
        return scan

    def whole(self, scan_id: str, hour: float, *numbers: int, run_kind: RunKind = "backfill") -> None:
        self.page(Scan(POSTS, scan_id, at(hour), run_kind=run_kind), minute(hour), *numbers, last=True)


@pytest.fixture(params=[True, False], ids=["merged page by page", "merged at once"])
def run_kinds(request: pytest.FixtureRequest, rig: Rig) -> RunKinds:
    return RunKinds(rig, merge_each=request.param)


def test_an_overtaken_scan_does_not_remove_items_added_since_it_began(run_kinds: RunKinds) -> None:
    run_kinds.whole("before", 0, 1, 2, 3, 4, run_kind="sync")
    sync = run_kinds.begun("sync", 24, 1, 2)
    run_kinds.whole("backfill", 25, 9, 1, 2, 3, 4)
    run_kinds.page(sync, at(26), 3, 4, last=True)
    run_kinds.rig.merge()
    assert run_kinds.rig.rows(GONE) == []
    run_kinds.whole("next", 48, 9, 1, 2, 3, run_kind="sync")
    run_kinds.whole("confirms", 72, 9, 1, 2, 3, run_kind="sync")
    run_kinds.rig.merge()
    assert run_kinds.rig.rows(GONE) == [("4", minute(48))]


def test_an_overtaken_scan_is_not_recorded_as_the_last_complete_scan(run_kinds: RunKinds) -> None:
    """complete_at is the end of the last full scan, and never decreases."""
    ends: list[datetime] = []
    run_kinds.whole("before", 0, 1, run_kind="sync")
    sync = run_kinds.begun("sync", 24, 1)
    for hour, scan_id in ((25, "backfill"), (27, "another")):
        run_kinds.whole(scan_id, hour, 1, 9)
        run_kinds.rig.merge()
        ((scan, end),) = run_kinds.rig.rows(ENDED)
        assert scan == scan_id
        ends.append(end)
    run_kinds.page(sync, at(28), last=True)
    run_kinds.rig.merge()
    assert run_kinds.rig.rows(ENDED) == [("another", ends[-1])]
    run_kinds.whole("next", 48, 1, 9, run_kind="sync")
    run_kinds.rig.merge()
    ends.append(run_kinds.rig.rows(ENDED)[0][1])
    assert ends == sorted(ends)


def test_a_backfill_misses_items_known_at_its_start_despite_an_unfinished_sync(run_kinds: RunKinds) -> None:
    run_kinds.whole("before", 0, 1, 2, 3, run_kind="sync")
    run_kinds.begun("sync", 24, 9, 1)
    run_kinds.whole("backfill", 25, 1, 2)
    run_kinds.rig.merge()
    assert run_kinds.rig.rows(MISSING) == [(n, minute(25)) for n in ("3", "9")]


def test_an_account_listed_by_a_later_catalogue_scan_is_not_removed(rig: Rig) -> None:
    rig.catalogue("before", 0, [account(ANNA), account(BEN), account("c")])
    sync = Scan(CATALOGUE, "sync", at(24))
    backfill = Scan(CATALOGUE, "backfill", at(25), run_kind="backfill")
    rig.land(sync.page([account(ANNA)], at(24)), backfill.page([account(ANNA), account(BEN)], at(25)))
    rig.record(sync.page([], at(26), last=True))
    assert rig.rows("SELECT account_id, removed_at FROM core.accounts ORDER BY 1") == [
        (ANNA, None), (BEN, None), ("c", None),
    ]  # fmt: skip
    assert rig.rows("SELECT account_id, missing_since FROM ops.missing_accounts") == [("c", at(26))]
    rig.record(backfill.page([], at(27), last=True))
    assert rig.rows("SELECT scan_id FROM core.completed_scans") == [("sync",)]
    assert rig.rows("SELECT account_id FROM ops.missing_accounts") == [("c",)]
