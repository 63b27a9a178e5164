"""When a merge begins, and when so much has landed that landing must slow down."""

import pytest

from connectors.warehouse.ingest.landing.backlog import Backlog

MB = 1024 * 1024


def test_only_the_first_merge_is_small() -> None:
    staged = Backlog(16 * MB)
    sizes = []
    waiting = 0
    for last in range(1, 101):
        staged.add(last, MB)
        waiting += 1
        if staged.merge_is_due:
            staged.forget(last)
            sizes.append(waiting)
            waiting = 0
    assert sizes == [2, 16, 16, 16, 16, 16, 16]


@pytest.mark.parametrize(("merge_bytes", "enough"), [(1, 1), (1000, 1000), (2 * MB, 2 * MB), (10**9, 2 * MB)])
def test_the_first_merge_begins_early_but_never_later_than_others(merge_bytes: int, enough: int) -> None:
    staged = Backlog(merge_bytes)
    assert not staged.merge_is_due
    staged.add(1, enough - 1)
    assert not staged.merge_is_due
    staged.add(2, 1)
    assert staged.merge_is_due


def test_as_much_may_land_during_the_first_merge_as_during_others() -> None:
    staged = Backlog(16 * MB)
    staged.add(1, 18 * MB - 1)
    assert not staged.landing_must_wait
    staged.add(2, 1)
    assert staged.landing_must_wait
    staged.forget(1)
    staged.add(3, 32 * MB - 2)
    assert not staged.landing_must_wait
    staged.add(4, 1)
    assert staged.landing_must_wait


def test_pages_landed_during_a_merge_wait_for_the_next_merge() -> None:
    staged = Backlog(10)
    staged.add(3, 4)
    staged.add(7, 6)
    assert staged.merge_is_due
    staged.add(9, 13)
    assert staged.landing_must_wait
    staged.forget(7)
    assert staged.merge_is_due
    assert not staged.landing_must_wait
    staged.forget(8)
    assert staged.merge_is_due
    staged.forget(9)
    assert not staged.merge_is_due
