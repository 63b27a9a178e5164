from datetime import UTC, datetime

import pytest

from models.partition import CATALOGUE, Partition, media
from models.walk import Checkpoint, Done, Fresh, Resume, WalkState, plan_walk

T0, T1 = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
POSTS = media("anna", "posts")
START = Checkpoint(POSTS, "walk-1", "run-1", T0, T0)


def plan(last: Checkpoint | None, *carried_on: str) -> Fresh | Resume | Done:
    return plan_walk(POSTS, last, run_id="run-2", carried_on=carried_on, now=T1, new_id=lambda: "walk-2")


def test_a_page_with_a_cursor_carries_the_walk_on() -> None:
    after = START.advance(run_id="run-2", next_cursor="c", items=3, at=T1)
    assert after == Checkpoint(POSTS, "walk-1", "run-2", T0, T1, "c", 1, 3, WalkState.WALKING)


def test_only_a_null_cursor_ends_the_walk() -> None:
    assert START.advance(run_id="run-1", next_cursor="", items=0, at=T1).state is WalkState.WALKING
    ended = START.advance(run_id="run-1", next_cursor=None, items=0, at=T1)
    assert (ended.state, ended.cursor, ended.pages) == (WalkState.COMPLETE, None, 1)


def test_a_walk_given_up_keeps_its_counts_and_no_cursor() -> None:
    walking = START.advance(run_id="run-1", next_cursor="c", items=3, at=T0)
    assert walking.abandon(run_id="run-2", at=T1) == Checkpoint(
        POSTS, "walk-1", "run-2", T0, T1, None, 1, 3, WalkState.ABANDONED
    )


FRESH = Fresh(Checkpoint(POSTS, "walk-2", "run-2", T1, T1))
WALKING = START.advance(run_id="run-1", next_cursor="c", items=1, at=T0)
COMPLETE = START.advance(run_id="run-1", next_cursor=None, items=1, at=T0)


@pytest.mark.parametrize(
    ("last", "carried_on", "expected"),
    [
        (None, (), FRESH),
        (None, ("run-1",), FRESH),
        (START, (), FRESH),
        (WALKING, (), Resume(WALKING)),
        (WALKING, ("run-1",), Resume(WALKING)),
        (COMPLETE, (), FRESH),
        (COMPLETE, ("run-0",), FRESH),
        (COMPLETE, ("run-0", "run-1"), Done(COMPLETE)),
        (WALKING.abandon(run_id="run-1", at=T0), ("run-1",), FRESH),
    ],
    ids=[
        "never walked",
        "never walked, carrying on",
        "no page landed",
        "broken off",
        "broken off by the run carried on",
        "complete, of another night",
        "complete, of a run not carried on",
        "complete, of a run carried on",
        "given up",
    ],
)
def test_a_run_takes_a_partition_up_where_it_may(
    last: Checkpoint | None, carried_on: tuple[str, ...], expected: Fresh | Resume | Done
) -> None:
    assert plan(last, *carried_on) == expected


def test_partitions_name_themselves_and_sort() -> None:
    assert str(CATALOGUE) == "accounts"
    assert str(POSTS) == "posts of account anna"
    assert sorted([media("b", "posts"), POSTS, CATALOGUE]) == [CATALOGUE, POSTS, media("b", "posts")]
    assert Partition("media", "anna", "posts") == POSTS
