"""Retention removes old rows, but none that are still needed."""

import pyarrow as pa
import pytest

from connectors.warehouse.maintenance.retention import delete_old
from connectors.warehouse.storage.connection import transaction
from models.feeds import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind, RunState
from tests.warehouse.days import BEN, POSTS, STORIES, Days, Row, at, state_schemas

CUT, GOOD = RunState.INTERRUPTED, OutcomeKind.COMPLETE
NEVER = at(-999_999)


def bring(days: Days) -> None:
    """Bring the runs of the state, as a publication does."""
    days.rig.db.execute("DELETE FROM core.runs")
    days.rig.db.register("brought", pa.Table.from_pylist(days.runs, state_schemas()[0]))
    days.rig.db.execute("INSERT INTO core.runs BY NAME FROM brought")


def forget(days: Days, hour: float) -> int:
    """Delete runs that began before an hour, from the state too; return how many."""
    bring(days)
    with transaction(days.rig.db):
        gone = delete_old(days.rig.db, before=at(hour), repeated_before=NEVER)
    days.runs = [run for run in days.runs if run["run_id"] not in gone]
    return len(gone)


def runs(days: Days) -> list[str]:
    return [run["run_id"] for run in sorted(days.runs, key=lambda run: run["started_at"])]


def outcomes(days: Days) -> list[Row]:
    return days.rows("SELECT run_id, surface FROM core.run_outcomes ORDER BY ended_at, surface")


def test_old_runs_are_deleted_with_their_outcomes_and_warnings(days: Days) -> None:
    for day in range(4):
        days.run(f"day-{day}", 24 * day, dict.fromkeys((POSTS, STORIES, CATALOGUE), GOOD))
        days.rig.db.execute("INSERT INTO core.run_warnings VALUES (?, 'a', 1, 'One.', NULL, false)", [f"day-{day}"])
    assert forget(days, 48) == 2
    assert days.rows("SELECT run_id FROM core.run_warnings ORDER BY run_id") == [("day-2",), ("day-3",)]
    assert runs(days) == ["day-2", "day-3"]
    assert len(outcomes(days)) == 6
    assert forget(days, 48) == 0
    assert forget(days, 9999) == 1
    assert runs(days) == ["day-3"]


def thin(days: Days, hour: float, runs_in_full: int = 0) -> None:
    bring(days)
    with transaction(days.rig.db):
        delete_old(days.rig.db, before=NEVER, repeated_before=at(hour), runs_in_full=runs_in_full)


def seen(days: Days, day: int, kind: OutcomeKind, code: str | None = None, partition: Partition = POSTS) -> None:
    """A run with one outcome."""
    outcome = Outcome(partition, f"day-{day}", kind, at(24 * day), at(24 * day + 1), error_code=code)
    days.run(f"day-{day}", 24 * day, {partition: outcome})


def left(days: Days) -> list[int]:
    rows = days.rows("SELECT run_id FROM core.run_outcomes ORDER BY ended_at")
    return [int(run_id.removeprefix("day-")) for (run_id,) in rows]


def test_an_outcome_that_never_changed_is_known_of_every_run_that_is_kept(days: Days) -> None:
    # The first run with the first outcome is forgotten at the end; the next ones had no outcomes of their own.
    for day in range(0, 82, 3):
        seen(days, day, GOOD)
        forget(days, 24 * (day - 80))
        thin(days, 24 * (day - 10))
    first = left(days)[0]
    oldest = min(int(run_id.removeprefix("day-")) for run_id in runs(days))
    # Only for the oldest 31 days may runs without outcomes remain.
    assert first - oldest < 31
    assert len(left(days)) < 20


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
    days: Days, seen_daily: list[tuple[Partition, OutcomeKind]], hour: float, runs_in_full: int, days_left: list[int]
) -> None:
    for day, (partition, kind) in enumerate(seen_daily):
        seen(days, day, kind, "token_expired" if kind is SKIPPED else None, partition)
    for _ in range(2):
        thin(days, hour, runs_in_full)
        assert left(days) == days_left
    assert len(runs(days)) == len(seen_daily)


@pytest.mark.parametrize(("kind", "selection"), [("sync", "due"), ("sync", "due stories"), ("backfill", "--all")])
def test_of_a_run_that_scans_a_part_one_outcome_of_each_day_is_kept(days: Days, kind: str, selection: str) -> None:
    for number in range(6):
        days.run(f"day-{number}", 12 * number, {POSTS: GOOD}, kind=kind, selection=selection)
    thin(days, 9999)
    assert left(days) == [0, 2, 4, 5]


def test_the_last_run_that_ended_of_each_kind_and_selection_stays(days: Days) -> None:
    days.run("old", 0, {POSTS: GOOD})
    days.run("nightly", 1, {POSTS: GOOD}, state=RunState.PARTIAL)
    days.run("stories", 2, {POSTS: GOOD}, selection="stories")
    days.run("again", 3, {POSTS: GOOD}, selection="stories", state=RunState.FAILED)
    days.run("anna", 4, {POSTS: GOOD}, kind="backfill", selection="anna: posts")
    days.run("ben", 5, {POSTS: GOOD}, kind="backfill", selection="ben: posts")
    assert forget(days, 9999) == 2
    assert runs(days) == ["nightly", "again", "anna", "ben"]


def test_running_and_resumable_runs_are_kept(days: Days) -> None:
    days.run("lost", 0, {POSTS: GOOD}, state=CUT)
    days.run("well", 1, {POSTS: GOOD})
    days.run("cut", 2, {POSTS: GOOD}, state=CUT, published=False)
    days.run("cut again", 3, {POSTS: GOOD}, state=CUT, published=False, resumes="cut")
    assert forget(days, 9999) == 1
    assert runs(days) == ["well", "cut", "cut again"]
    days.run("under way", 4, state=None, published=False, resumes="cut again")
    assert forget(days, 9999) == 0
    assert runs(days) == ["well", "cut", "cut again", "under way"]
    days.runs[-1]["state"] = RunState.COMPLETE
    assert forget(days, 9999) == 1
    assert runs(days) == ["cut", "cut again", "under way"], "its snapshot never came into place"
    days.run("last", 5, {POSTS: GOOD})
    assert forget(days, 9999) == 3
    assert runs(days) == ["last"]


def test_the_counts_of_deleted_runs_are_added_up(days: Days) -> None:
    for day in range(3):
        days.scan(POSTS, 24 * day, [{"id": str(day), "like_count": day}])
        days.runs.append(
            {"run_id": f"run-{day + 1}", "seq": day + 1, "kind": "sync", "state": "complete", "version": "1",
             "started_at": at(24 * day), "ended_at": at(24 * day), "published_at": at(24 * day)}
        )  # fmt: skip
    sums = "SELECT sum(pages), sum(items), sum(added) FROM core.run_counts"
    before = days.rows(sums)
    assert [forget(days, 25), forget(days, 9999)] == [2, 0]
    assert days.rows("SELECT run_seq, run_id, pages FROM core.run_counts ORDER BY 1") == [(0, "", 2), (3, "run-3", 1)]
    days.run("run-4", 96)
    assert forget(days, 9999) == 1
    assert days.rows("SELECT run_seq, run_id, pages FROM core.run_counts ORDER BY 1") == [(0, "", 3)]
    assert days.rows(sums) == before


def test_the_last_outcome_of_each_partition_stays_with_its_run(days: Days) -> None:
    ben = media(BEN, "posts")
    days.run("first", 1, dict.fromkeys((POSTS, STORIES, ben), GOOD))
    days.run("second", 24, {POSTS: GOOD, ben: GOOD})
    days.run("third", 48, {POSTS: GOOD})
    assert forget(days, 9999) == 0
    assert runs(days) == ["first", "second", "third"]
    assert outcomes(days) == [("first", "stories"), ("second", "posts"), ("third", "posts")]
    days.run("fourth", 72, {POSTS: GOOD, STORIES: GOOD})
    assert forget(days, 9999) == 2
    assert runs(days) == ["second", "fourth"]
