"""Housekeeping removes old rows and files, but none that are still needed."""

from datetime import timedelta
from pathlib import Path

from connectors.warehouse.maintenance.housekeeping import delete_repeated_outcomes, delete_runs
from connectors.warehouse.runs import ledger
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.snapshot.reader import open_snapshot
from models.page_commit import PageCommit
from models.partition import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind, RunState, RunWarning
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, Rig, Row, account, at

ENDED = RunState.COMPLETE
CUT = RunState.INTERRUPTED


def run(
    rig: Rig,
    run_id: str,
    hour: float,
    *partitions: Partition,
    state: RunState | None = ENDED,
    kind: str = "sync",
    selection: str | None = None,
    published: bool = True,
) -> None:
    """A run of one hour with outcomes of these partitions; one without a state is still running."""
    with rig.connection.begin():
        message = {"within": timedelta(hours=12), "version": "1", "selection": selection}
        ledger.begin(rig.connection, run_id, kind, now=at(hour), **message)  # type: ignore[arg-type]
    rig.record(
        PageCommit(outcomes=tuple(Outcome(p, run_id, OutcomeKind.COMPLETE, at(hour), at(hour + 1)) for p in partitions))
    )
    with rig.connection.begin():
        if state is not None:
            ledger.end(rig.connection, run_id, state, now=at(hour + 1))
        if published:
            ledger.mark_published(rig.connection, now=at(hour + 1))


def forget(rig: Rig, hour: float) -> int:
    with rig.connection.begin():
        return delete_runs(rig.connection, before=at(hour))


def runs(rig: Rig) -> list[str]:
    return [run_id for (run_id,) in rig.rows("SELECT run_id FROM core.runs ORDER BY started_at")]


def outcomes(rig: Rig) -> list[Row]:
    return rig.rows("SELECT run_id, surface FROM core.run_outcomes ORDER BY ended_at, surface")


def test_old_runs_are_deleted_with_their_outcomes_and_warnings(rig: Rig) -> None:
    for day in range(4):
        run(rig, f"day-{day}", 24 * day, POSTS, STORIES, CATALOGUE)
        with rig.connection.begin():
            ledger.warn(rig.connection, f"day-{day}", RunWarning("a", 1, "One."))
    assert forget(rig, 48) == 2
    assert rig.rows("SELECT run_id FROM core.run_warnings ORDER BY run_id") == [("day-2",), ("day-3",)]
    assert runs(rig) == ["day-2", "day-3"]
    assert len(outcomes(rig)) == 6
    assert forget(rig, 48) == 0
    assert forget(rig, 9999) == 1
    assert runs(rig) == ["day-3"]


def thin(rig: Rig, hour: float, runs_in_full: int = 0) -> None:
    with rig.connection.begin():
        delete_repeated_outcomes(rig.connection, before=at(hour), runs_in_full=runs_in_full)


def seen(rig: Rig, day: int, kind: OutcomeKind, code: str | None = None, partition: Partition = POSTS) -> None:
    """A run with one outcome."""
    run(rig, f"day-{day}", 24 * day)
    outcome = Outcome(partition, f"day-{day}", kind, at(24 * day), at(24 * day + 1), error_code=code)
    rig.record(PageCommit(outcomes=(outcome,)))


def days(rig: Rig) -> list[int]:
    rows = rig.rows("SELECT run_id FROM core.run_outcomes ORDER BY ended_at")
    return [int(run_id.removeprefix("day-")) for (run_id,) in rows]


def test_an_outcome_that_never_changed_is_known_of_every_run_that_is_kept(rig: Rig) -> None:
    # The first run with the first outcome is forgotten at the end; the next ones had no outcomes of their own.
    for day in range(82):
        seen(rig, day, OutcomeKind.COMPLETE)
        forget(rig, 24 * (day - 80))
        thin(rig, 24 * (day - 10))
    first = days(rig)[0]
    oldest = min(int(run_id.removeprefix("day-")) for run_id in runs(rig))
    # Only for the oldest 31 days may runs without outcomes remain.
    assert first - oldest < 31
    assert len(days(rig)) < 20


def test_of_successful_outcomes_the_first_of_each_kind_and_the_last_are_kept(rig: Rig) -> None:
    good, failed = OutcomeKind.COMPLETE, OutcomeKind.FAILED
    kinds = [good, OutcomeKind.RECENT, good, failed, failed, good, good, OutcomeKind.SKIPPED, OutcomeKind.SKIPPED, good]
    for day, kind in enumerate([*kinds, good, good]):
        seen(rig, day, kind, "token_expired" if kind is OutcomeKind.SKIPPED else None)
    # Failures are kept, repeated or not.
    for _ in range(2):
        thin(rig, 9999)
        assert days(rig) == [0, 3, 4, 5, 7, 9, 11]
    assert len(runs(rig)) == 12
    # After the next one, the previous last one is no longer needed.
    seen(rig, 12, good)
    thin(rig, 9999)
    assert days(rig) == [0, 3, 4, 5, 7, 9, 12]


def test_the_outcomes_of_the_last_runs_and_days_all_stay(rig: Rig) -> None:
    for day in range(8):
        seen(rig, day, OutcomeKind.COMPLETE)
    thin(rig, 9999, runs_in_full=8)
    thin(rig, 24, runs_in_full=0)
    assert days(rig) == [*range(8)]
    thin(rig, 24 * 4, runs_in_full=5)
    assert days(rig) == [0, *range(3, 8)]
    thin(rig, 24 * 4, runs_in_full=0)
    assert days(rig) == [0, *range(4, 8)]


def test_each_partition_has_outcomes_of_its_own(rig: Rig) -> None:
    for day, partition in enumerate([POSTS, STORIES, POSTS, STORIES, media(BEN, "posts"), CATALOGUE, POSTS]):
        seen(rig, day, OutcomeKind.COMPLETE, partition=partition)
    thin(rig, 9999)
    assert days(rig) == [0, 1, 3, 4, 5, 6]


def test_the_last_run_that_ended_of_each_kind_and_selection_stays(rig: Rig) -> None:
    run(rig, "old", 0, POSTS)
    run(rig, "nightly", 1, POSTS, state=RunState.PARTIAL)
    run(rig, "stories", 2, POSTS, selection="stories")
    run(rig, "again", 3, POSTS, selection="stories", state=RunState.FAILED)
    run(rig, "anna", 4, POSTS, kind="backfill", selection="anna: posts")
    run(rig, "ben", 5, POSTS, kind="backfill", selection="ben: posts")
    assert forget(rig, 9999) == 2
    assert runs(rig) == ["nightly", "again", "anna", "ben"]


def test_running_and_resumable_runs_are_kept(rig: Rig) -> None:
    run(rig, "lost", 0, POSTS, state=CUT)
    run(rig, "well", 1, POSTS)
    run(rig, "cut", 2, POSTS, state=CUT, published=False)
    run(rig, "cut again", 3, POSTS, state=CUT, published=False)
    assert rig.value("SELECT resumes FROM core.runs WHERE run_id = 'cut again'") == "cut"
    assert forget(rig, 9999) == 1
    assert runs(rig) == ["well", "cut", "cut again"]
    run(rig, "under way", 4, POSTS, state=None, published=False)
    assert forget(rig, 9999) == 0
    assert runs(rig) == ["well", "cut", "cut again", "under way"]
    with rig.connection.begin():
        ledger.end(rig.connection, "under way", ENDED, now=at(5))
    assert forget(rig, 9999) == 1
    assert runs(rig) == ["cut", "cut again", "under way"], "its snapshot never came into place"
    with rig.connection.begin():
        ledger.mark_published(rig.connection, now=at(5))
    assert forget(rig, 9999) == 2
    assert runs(rig) == ["under way"]


def test_analysts_see_the_same_of_each_partition_as_before(rig: Rig, tmp_path: Path) -> None:
    rig.catalogue("c", 0, [account(ANNA, name="anna"), account(BEN, name="ben")])
    ben = media(BEN, "posts")
    run(rig, "first", 1, POSTS, STORIES, ben)
    run(rig, "second", 24, POSTS, ben)
    run(rig, "third", 48, POSTS)
    message = freshness(rig, tmp_path)
    assert [outcome for outcome, *_ in message].count(None) == 1
    assert len(message) == 4
    assert forget(rig, 9999) == 0
    assert runs(rig) == ["first", "second", "third"]
    assert outcomes(rig) == [("first", "stories"), ("second", "posts"), ("third", "posts")]
    assert freshness(rig, tmp_path) == message
    run(rig, "fourth", 72, POSTS, STORIES)
    assert forget(rig, 9999) == 2
    assert runs(rig) == ["second", "fourth"]


def freshness(rig: Rig, folder: Path) -> list[Row]:
    publish(rig.connection, folder / "s.duckdb", at=at(99), version="1")
    with open_snapshot(folder / "s.duckdb") as snapshot:
        shown = "outcome, * EXCLUDE (outcome, stale_for, age_seconds, is_stale)"
        return snapshot.query(f"SELECT {shown} FROM freshness ORDER BY ALL").rows
