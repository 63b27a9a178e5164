"""When a merge begins, and when so much has landed that landing must slow down."""

import pytest

from flows.engine.backlog import Backlog
from models.page_commit import PageCommit, ReceivedPage
from models.runs import Outcome, OutcomeKind
from tests.warehouse.rig import POSTS
from tests.warehouse.rig import START as NOW

MB = 1024 * 1024


def add(backlog: Backlog, last: int, size: int) -> None:
    """Add a page of this size."""
    backlog.add(last, [PageCommit(ReceivedPage(POSTS, "run-1", "scan", 1, NOW, None, b"x" * size))])


@pytest.mark.parametrize(("merge_bytes", "enough"), [(1, 1), (1000, 1000), (2 * MB, 2 * MB), (10**9, 2 * MB)])
def test_the_first_merge_begins_early_but_never_later_than_others(merge_bytes: int, enough: int) -> None:
    backlog = Backlog(merge_bytes)
    assert not backlog.merge_is_due
    add(backlog, 1, enough - 1)
    assert not backlog.merge_is_due
    add(backlog, 2, 1)
    assert backlog.merge_is_due


def test_as_much_may_land_during_the_first_merge_as_during_others() -> None:
    backlog = Backlog(16 * MB)
    add(backlog, 1, 18 * MB - 1)
    assert not backlog.landing_must_wait
    add(backlog, 2, 1)
    assert backlog.landing_must_wait
    backlog.forget(1)
    add(backlog, 3, 32 * MB - 2)
    assert not backlog.landing_must_wait
    add(backlog, 4, 1)
    assert backlog.landing_must_wait


@pytest.mark.parametrize(("outcomes", "commits"), [(1, 512), (128, 4)])
def test_many_outcomes_are_merged_although_they_have_no_page(outcomes: int, commits: int) -> None:
    backlog = Backlog(2 * MB)
    commit = PageCommit(outcomes=(Outcome(POSTS, "run-1", OutcomeKind.DENIED, NOW, NOW),) * outcomes)
    backlog.add(commits - 1, [commit] * (commits - 1))
    assert not backlog.merge_is_due
    backlog.add(commits, [commit])
    assert backlog.merge_is_due
    backlog.add(2 * commits - 1, [commit] * (commits - 1))
    assert not backlog.landing_must_wait
    backlog.add(2 * commits, [commit])
    assert backlog.landing_must_wait
    backlog.forget(2 * commits)
    assert not backlog.merge_is_due


def test_full_pages_are_merged_by_their_size() -> None:
    backlog = Backlog(16 * MB)
    backlog.add(2, [PageCommit(ReceivedPage(POSTS, "run-1", "scan", 1, NOW, None, b"x" * MB))] * 2)
    backlog.forget(2)
    for number in range(3, 503):
        add(backlog, number, 28_000)
    assert not backlog.merge_is_due
