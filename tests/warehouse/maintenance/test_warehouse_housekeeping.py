"""Housekeeping removes old rows and files, but none that are still needed."""

from pathlib import Path

from connectors.warehouse.maintenance.housekeeping import delete_old_runs, delete_repeated_outcomes
from connectors.warehouse.runs import ledger
from models.page_commit import PageCommit
from models.partition import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind, RunState, RunWarning
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, Rig, Row, account, ask, at

CUT, GOOD = RunState.INTERRUPTED, OutcomeKind.COMPLETE


def forget(rig: Rig, hour: float) -> int:
    return len(rig.call(delete_old_runs, before=at(hour)))


def runs(rig: Rig) -> list[str]:
    return [run_id for (run_id,) in rig.rows("SELECT run_id FROM core.runs ORDER BY started_at")]


def outcomes(rig: Rig) -> list[Row]:
    return rig.rows("SELECT run_id, surface FROM core.run_outcomes ORDER BY ended_at, surface")


def test_old_runs_are_deleted_with_their_outcomes_and_warnings(rig: Rig) -> None:
    for day in range(4):
        rig.run(f"day-{day}", 24 * day, dict.fromkeys((POSTS, STORIES, CATALOGUE), GOOD))
        rig.call(ledger.warn, f"day-{day}", RunWarning("a", 1, "One."))
    assert forget(rig, 48) == 2
    assert rig.rows("SELECT run_id FROM core.run_warnings ORDER BY run_id") == [("day-2",), ("day-3",)]
    assert runs(rig) == ["day-2", "day-3"]
    assert len(outcomes(rig)) == 6
    assert forget(rig, 48) == 0
    assert forget(rig, 9999) == 1
    assert runs(rig) == ["day-3"]


def thin(rig: Rig, hour: float, runs_in_full: int = 0) -> None:
    rig.call(delete_repeated_outcomes, before=at(hour), runs_in_full=runs_in_full)


def seen(rig: Rig, day: int, kind: OutcomeKind, code: str | None = None, partition: Partition = POSTS) -> None:
    """A run with one outcome."""
    rig.run(f"day-{day}", 24 * day)
    outcome = Outcome(partition, f"day-{day}", kind, at(24 * day), at(24 * day + 1), error_code=code)
    rig.record(PageCommit(outcomes=(outcome,)))


def days(rig: Rig) -> list[int]:
    rows = rig.rows("SELECT run_id FROM core.run_outcomes ORDER BY ended_at")
    return [int(run_id.removeprefix("day-")) for (run_id,) in rows]


def test_an_outcome_that_never_changed_is_known_of_every_run_that_is_kept(rig: Rig) -> None:
    # The first run with the first outcome is forgotten at the end; the next ones had no outcomes of their own.
    for day in range(0, 82, 3):
        seen(rig, day, GOOD)
        forget(rig, 24 * (day - 80))
        thin(rig, 24 * (day - 10))
    first = days(rig)[0]
    oldest = min(int(run_id.removeprefix("day-")) for run_id in runs(rig))
    # Only for the oldest 31 days may runs without outcomes remain.
    assert first - oldest < 31
    assert len(days(rig)) < 20


def test_of_successful_outcomes_the_first_of_each_kind_and_the_last_are_kept(rig: Rig) -> None:
    failed, skipped = OutcomeKind.FAILED, OutcomeKind.SKIPPED
    kinds = [GOOD, OutcomeKind.RECENT, GOOD, failed, failed, GOOD, GOOD, skipped, skipped, GOOD, GOOD, GOOD]
    for day, kind in enumerate(kinds):
        seen(rig, day, kind, "token_expired" if kind is skipped else None)
    # Failures are kept, repeated or not.
    for _ in range(2):
        thin(rig, 9999)
        assert days(rig) == [0, 3, 4, 5, 7, 9, 11]
    assert len(runs(rig)) == 12
    # After the next one, the previous last one is no longer needed.
    seen(rig, 12, GOOD)
    thin(rig, 9999)
    assert days(rig) == [0, 3, 4, 5, 7, 9, 12]


def test_the_outcomes_of_the_last_runs_and_days_all_stay(rig: Rig) -> None:
    for day in range(8):
        seen(rig, day, GOOD)
    thin(rig, 9999, runs_in_full=8)
    thin(rig, 24, runs_in_full=0)
    assert days(rig) == [*range(8)]
    thin(rig, 24 * 4, runs_in_full=5)
    assert days(rig) == [0, *range(3, 8)]
    thin(rig, 24 * 4, runs_in_full=0)
    assert days(rig) == [0, *range(4, 8)]


def test_each_partition_has_outcomes_of_its_own(rig: Rig) -> None:
    for day, partition in enumerate([POSTS, STORIES, POSTS, STORIES, media(BEN, "posts"), CATALOGUE, POSTS]):
        seen(rig, day, GOOD, partition=partition)
    thin(rig, 9999)
    assert days(rig) == [0, 1, 3, 4, 5, 6]


def test_the_last_run_that_ended_of_each_kind_and_selection_stays(rig: Rig) -> None:
    rig.run("old", 0, {POSTS: GOOD})
    rig.run("nightly", 1, {POSTS: GOOD}, state=RunState.PARTIAL)
    rig.run("stories", 2, {POSTS: GOOD}, selection="stories")
    rig.run("again", 3, {POSTS: GOOD}, selection="stories", state=RunState.FAILED)
    rig.run("anna", 4, {POSTS: GOOD}, kind="backfill", selection="anna: posts")
    rig.run("ben", 5, {POSTS: GOOD}, kind="backfill", selection="ben: posts")
    assert forget(rig, 9999) == 2
    assert runs(rig) == ["nightly", "again", "anna", "ben"]


def test_running_and_resumable_runs_are_kept(rig: Rig) -> None:
    rig.run("lost", 0, {POSTS: GOOD}, state=CUT)
    rig.run("well", 1, {POSTS: GOOD})
    rig.run("cut", 2, {POSTS: GOOD}, state=CUT, published=False)
    rig.run("cut again", 3, {POSTS: GOOD}, state=CUT, published=False)
    assert rig.value("SELECT resumes FROM core.runs WHERE run_id = 'cut again'") == "cut"
    assert forget(rig, 9999) == 1
    assert runs(rig) == ["well", "cut", "cut again"]
    rig.run("under way", 4, {POSTS: GOOD}, state=None, published=False)
    assert forget(rig, 9999) == 0
    assert runs(rig) == ["well", "cut", "cut again", "under way"]
    rig.do("UPDATE core.runs SET state = 'complete' WHERE run_id = 'under way'")
    assert forget(rig, 9999) == 1
    assert runs(rig) == ["cut", "cut again", "under way"], "its snapshot never came into place"
    rig.do("UPDATE core.runs SET published_at = now() WHERE published_at IS NULL")
    assert forget(rig, 9999) == 2
    assert runs(rig) == ["under way"]


def test_analysts_see_the_same_of_each_partition_as_before(rig: Rig, snapshot: Path) -> None:
    def freshness() -> list[Row]:
        rig.publish(snapshot, 99)
        shown = "outcome, * EXCLUDE (outcome, stale_for, age_seconds, is_stale)"
        return ask(snapshot, f"SELECT {shown} FROM freshness ORDER BY ALL")

    rig.catalogue("c", 0, [account(ANNA, name="anna"), account(BEN, name="ben")])
    ben = media(BEN, "posts")
    rig.run("first", 1, dict.fromkeys((POSTS, STORIES, ben), GOOD))
    rig.run("second", 24, {POSTS: GOOD, ben: GOOD})
    rig.run("third", 48, {POSTS: GOOD})
    message = freshness()
    assert [outcome for outcome, *_ in message].count(None) == 1
    assert len(message) == 4
    assert forget(rig, 9999) == 0
    assert runs(rig) == ["first", "second", "third"]
    assert outcomes(rig) == [("first", "stories"), ("second", "posts"), ("third", "posts")]
    assert freshness() == message
    rig.run("fourth", 72, {POSTS: GOOD, STORIES: GOOD})
    assert forget(rig, 9999) == 2
    assert runs(rig) == ["second", "fourth"]
