"""Retention removes old rows, but none that are still needed."""

import pytest

from connectors.warehouse.maintenance.retention import delete_old
from connectors.warehouse.publish.publish import bring_state
from connectors.warehouse.storage.connection import transaction
from models.feeds import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind, RunState
from tests.warehouse.rig import BEN, POSTS, STORIES, Rig, at

CUT, GOOD = RunState.INTERRUPTED, OutcomeKind.COMPLETE
LONG_AGO = -999_999


def delete(rig: Rig, *, before: float = LONG_AGO, repeated_before: float = LONG_AGO, runs_in_full: int = 0) -> int:
    """Delete runs that began before an hour, from the state too, and outcomes; return how many runs."""
    with transaction(rig.db):
        bring_state(rig.db, rig.state())
        gone = delete_old(rig.db, before=at(before), repeated_before=at(repeated_before), runs_in_full=runs_in_full)
    rig.runs = [run for run in rig.runs if run["run_id"] not in gone]
    return len(gone)


def runs(rig: Rig) -> list[str]:
    return [run["run_id"] for run in sorted(rig.runs, key=lambda run: run["started_at"])]


def test_old_runs_are_deleted_with_their_outcomes_and_warnings(rig: Rig) -> None:
    for day in range(4):
        rig.run(f"day-{day}", 24 * day, dict.fromkeys((POSTS, STORIES, CATALOGUE), GOOD))
        warning = {"run_id": f"day-{day}", "code": "a", "count": 1, "detail": "One.", "makes_partial": False}
        rig.warnings.append(warning)
    assert delete(rig, before=48) == 2
    assert rig.values("run_id", "run_warnings") == ["day-2", "day-3"]
    assert runs(rig) == ["day-2", "day-3"]
    assert len(rig.rows("*", "run_outcomes")) == 6
    assert delete(rig, before=48) == 0
    assert delete(rig, before=9999) == 1
    assert runs(rig) == ["day-3"]


def test_a_rejected_record_is_kept_as_long_as_it_comes(rig: Rig) -> None:
    rig.scan(POSTS, 0, [{"caption": "again"}, {"caption": "once"}])
    rig.scan(POSTS, 48, [{"caption": "again"}])
    delete(rig, before=24)
    assert rig.values("payload", "quarantine") == ['{"caption": "again"}']


def seen(rig: Rig, day: int, kind: OutcomeKind, code: str | None = None, partition: Partition = POSTS) -> None:
    """A run with one outcome."""
    outcome = Outcome(partition, f"day-{day}", kind, at(24 * day), at(24 * day + 1), error_code=code)
    rig.run(f"day-{day}", 24 * day, {partition: outcome})


def left(rig: Rig) -> list[int]:
    return [int(run_id.removeprefix("day-")) for run_id in rig.values("run_id", "run_outcomes", "ended_at")]


def test_an_outcome_that_never_changed_is_known_of_every_run_that_is_kept(rig: Rig) -> None:
    # The first run with the first outcome is forgotten at the end; the next ones had no outcomes of their own.
    for day in range(0, 82, 3):
        seen(rig, day, GOOD)
        delete(rig, repeated_before=24 * (day - 10))
    delete(rig, before=24)
    first = left(rig)[0]
    oldest = min(int(run_id.removeprefix("day-")) for run_id in runs(rig))
    # Only for the oldest 31 days may runs without outcomes remain.
    assert first - oldest < 31
    assert len(left(rig)) < 20


FAILED, SKIPPED = OutcomeKind.FAILED, OutcomeKind.SKIPPED
KINDS = [GOOD, OutcomeKind.RECENT, GOOD, FAILED, FAILED, GOOD, GOOD, SKIPPED, SKIPPED, GOOD, GOOD, GOOD]
OF_EACH = [POSTS, STORIES, POSTS, STORIES, media(BEN, "posts"), CATALOGUE, POSTS]


@pytest.mark.parametrize(
    ("seen_daily", "hour", "runs_in_full", "days_left"),
    [
        # Failures are kept, repeated or not; of others the first of each kind and the last.
        ([(POSTS, kind) for kind in KINDS], 9999, 0, [0, 3, 4, 5, 7, 9, 11]),
        # After the next one, the previous last one is no longer needed.
        ([(POSTS, kind) for kind in (*KINDS, GOOD)], 9999, 0, [0, 3, 4, 5, 7, 9, 12]),
        # Each partition has outcomes of its own.
        ([(partition, GOOD) for partition in OF_EACH], 9999, 0, [0, 1, 3, 4, 5, 6]),
        # Those of the last runs and days all stay.
        ([(POSTS, GOOD)] * 8, 9999, 8, [*range(8)]),
        ([(POSTS, GOOD)] * 8, 24, 0, [*range(8)]),
        ([(POSTS, GOOD)] * 8, 24 * 4, 5, [0, *range(3, 8)]),
        ([(POSTS, GOOD)] * 8, 24 * 4, 0, [0, *range(4, 8)]),
    ],
)
def test_repeated_successful_outcomes_are_deleted(
    rig: Rig, seen_daily: list[tuple[Partition, OutcomeKind]], hour: float, runs_in_full: int, days_left: list[int]
) -> None:
    for day, (partition, kind) in enumerate(seen_daily):
        seen(rig, day, kind, "token_expired" if kind is SKIPPED else None, partition)
    for _ in range(2):
        delete(rig, repeated_before=hour, runs_in_full=runs_in_full)
        assert left(rig) == days_left
    assert len(runs(rig)) == len(seen_daily)


@pytest.mark.parametrize(("kind", "selection"), [("sync", "due"), ("sync", "due stories"), ("backfill", "--all")])
def test_of_a_run_that_scans_a_part_one_outcome_of_each_day_is_kept(rig: Rig, kind: str, selection: str) -> None:
    for number in range(6):
        rig.run(f"day-{number}", 12 * number, {POSTS: GOOD}, kind=kind, selection=selection)
    delete(rig, repeated_before=9999)
    assert left(rig) == [0, 2, 4, 5]


def test_the_last_run_that_ended_of_each_kind_and_selection_stays(rig: Rig) -> None:
    rig.run("old", 0, {POSTS: GOOD})
    rig.run("nightly", 1, {POSTS: GOOD}, state=RunState.PARTIAL)
    rig.run("stories", 2, {POSTS: GOOD}, selection="stories")
    rig.run("again", 3, {POSTS: GOOD}, selection="stories", state=RunState.FAILED)
    rig.run("anna", 4, {POSTS: GOOD}, kind="backfill", selection="anna: posts")
    rig.run("ben", 5, {POSTS: GOOD}, kind="backfill", selection="ben: posts")
    assert delete(rig, before=9999) == 2
    assert runs(rig) == ["nightly", "again", "anna", "ben"]


def test_running_and_resumable_runs_are_kept(rig: Rig) -> None:
    rig.run("lost", 0, {POSTS: GOOD}, state=CUT)
    rig.run("well", 1, {POSTS: GOOD})
    rig.run("cut", 2, {POSTS: GOOD}, state=CUT, published=False)
    rig.run("cut again", 3, {POSTS: GOOD}, state=CUT, published=False, resumes="cut")
    assert delete(rig, before=9999) == 1
    assert runs(rig) == ["well", "cut", "cut again"]
    rig.run("under way", 4, state=None, published=False, resumes="cut again")
    assert delete(rig, before=9999) == 0
    assert runs(rig) == ["well", "cut", "cut again", "under way"]
    rig.runs[-1]["state"] = RunState.COMPLETE
    assert delete(rig, before=9999) == 1
    assert runs(rig) == ["cut", "cut again", "under way"], "its snapshot never came into place"
    rig.run("last", 5, {POSTS: GOOD})
    assert delete(rig, before=9999) == 3
    assert runs(rig) == ["last"]


def test_the_counts_of_deleted_runs_are_added_up(rig: Rig) -> None:
    for day in range(3):
        rig.run(f"run-{day + 1}", 24 * day, {}, (POSTS, 24 * day, [{"id": str(day), "like_count": day}]))
    sums = "sum(pages), sum(items), sum(added)", "run_counts"
    before = rig.rows(*sums)
    assert [delete(rig, before=25), delete(rig, before=9999)] == [2, 0]
    assert rig.rows("run_seq, run_id, pages", "run_counts") == [(0, "", 2), (3, "run-3", 1)]
    rig.run("run-4", 96)
    assert delete(rig, before=9999) == 1
    assert rig.rows("run_seq, run_id, pages", "run_counts") == [(0, "", 3)]
    assert rig.rows(*sums) == before


def test_the_last_outcome_of_each_partition_stays_with_its_run(rig: Rig) -> None:
    ben = media(BEN, "posts")
    rig.run("first", 1, dict.fromkeys((POSTS, STORIES, ben), GOOD))
    rig.run("second", 24, {POSTS: GOOD, ben: GOOD})
    rig.run("third", 48, {POSTS: GOOD})
    assert delete(rig, before=9999) == 0
    assert runs(rig) == ["first", "second", "third"]
    left = rig.rows("run_id, surface", "run_outcomes", "ended_at, surface")
    assert left == [("first", "stories"), ("second", "posts"), ("third", "posts")]
    rig.run("fourth", 72, {POSTS: GOOD, STORIES: GOOD})
    assert delete(rig, before=9999) == 2
    assert runs(rig) == ["second", "fourth"]
