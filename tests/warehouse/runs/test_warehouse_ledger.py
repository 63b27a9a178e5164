from datetime import timedelta
from typing import Any

import pytest

from connectors.warehouse.runs import ledger
from connectors.warehouse.runs.failure_groups import Example, FailureGroup, expired_accounts, failure_groups_of
from models.page_commit import PageCommit
from models.partition import CATALOGUE, Partition
from models.runs import Outcome, OutcomeKind, RunState, RunWarning
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, T0, Rig, account, at

DAY = timedelta(hours=24)


def begin(rig: Rig, run_id: str, hour: float, kind: str = "sync") -> tuple[str, ...]:
    with rig.connection.begin():
        return ledger.begin(rig.connection, run_id, kind, now=at(hour), within=DAY, version="1.2")


def finish(rig: Rig, run_id: str, hour: float, state: RunState, **columns: object) -> None:
    with rig.connection.begin():
        ledger.end(rig.connection, run_id, state, now=at(hour), **columns)


def publish(rig: Rig, hour: float) -> None:
    with rig.connection.begin():
        ledger.mark_published(rig.connection, now=at(hour))


def outcome(kind: OutcomeKind, partition: Partition = POSTS, run_id: str = "r", **message: Any) -> PageCommit:  # noqa: ANN401
    return PageCommit(outcomes=(Outcome(partition, run_id, kind, T0, at(1), **message),))


def test_a_run_is_recorded_at_its_start_and_end(rig: Rig) -> None:
    assert begin(rig, "r", 0) == ()
    assert rig.row("SELECT state, started_at, ended_at, resumes, version FROM core.runs") == (
        "running", T0, None, None, "1.2",
    )  # fmt: skip
    finish(rig, "r", 2, RunState.PARTIAL, accounts=3, partitions=5, error_code="e", detail="It's so.")
    assert rig.row("SELECT state, ended_at, accounts, partitions, error_code, detail FROM core.runs") == (
        "partial", at(2), 3, 5, "e", "It's so.",
    )  # fmt: skip


def test_a_run_that_died_is_marked_and_carried_on_with_those_before_it(rig: Rig) -> None:
    assert begin(rig, "a", 0) == ()
    assert begin(rig, "b", 1) == ("a",)
    assert begin(rig, "c", 2) == ("b", "a")
    assert rig.rows("SELECT run_id, state, resumes FROM core.runs ORDER BY started_at") == [
        ("a", "interrupted", None),
        ("b", "interrupted", "a"),
        ("c", "running", "b"),
    ]
    finish(rig, "c", 3, RunState.COMPLETE)
    publish(rig, 3)
    assert begin(rig, "d", 4) == ()


def test_runs_are_ordered_by_their_sequence_and_not_by_the_clock(rig: Rig) -> None:
    """The clock was days ahead during `ahead`: it is not the last run once another has begun."""
    begin(rig, "ahead", 90)
    finish(rig, "ahead", 91, RunState.COMPLETE)
    publish(rig, 91)
    assert begin(rig, "a", 0) == ()
    assert begin(rig, "b", 1) == ("a",)
    assert rig.rows("SELECT run_id, seq FROM core.runs ORDER BY seq") == [("ahead", 1), ("a", 2), ("b", 3)]


def test_outcomes_are_tallied_by_kind(rig: Rig) -> None:
    rig.record(
        outcome(OutcomeKind.COMPLETE, CATALOGUE),
        outcome(OutcomeKind.COMPLETE, POSTS),
        outcome(OutcomeKind.SKIPPED, STORIES),
        outcome(OutcomeKind.FAILED, POSTS, run_id="other"),
    )
    with rig.connection.begin():
        counted = ledger.tally(rig.connection, "r")
        assert (counted.kinds, counted.total) == ({OutcomeKind.COMPLETE: 2, OutcomeKind.SKIPPED: 1}, 3)
        assert ledger.tally(rig.connection, "none").total == 0


def test_two_outcomes_of_one_partition_are_refused(rig: Rig) -> None:
    rig.record(outcome(OutcomeKind.COMPLETE), outcome(OutcomeKind.FAILED))
    with rig.connection.begin(), pytest.raises(ValueError, match=f"two outcomes of .*{ANNA}.* in run r"):
        ledger.tally(rig.connection, "r")


def test_failures_are_grouped_with_the_largest_group_first(rig: Rig) -> None:
    message: dict[str, Any] = {
        "error_code": "rate_limited",
        "resume_after": at(5),
        "correlation_id": "c1",
        "detail": "Wait.",
    }
    rig.record(
        outcome(OutcomeKind.COMPLETE, STORIES),
        outcome(OutcomeKind.FAILED, CATALOGUE, error_code="timeout"),
        outcome(OutcomeKind.DEFERRED, POSTS, **message),
        outcome(OutcomeKind.DEFERRED, Partition("media", BEN, "posts"), **message | {"resume_after": at(6)}),
        outcome(OutcomeKind.SKIPPED, Partition("media", BEN, "stories")),
    )
    with rig.connection.begin():
        assert failure_groups_of(rig.connection, "r", now=at(0)) == (
            FailureGroup(
                OutcomeKind.DEFERRED,
                "rate_limited",
                2,
                2,
                at(6),
                "Wait.",
                (Example(ANNA, "posts", "c1", ANNA), Example(BEN, "posts", "c1", BEN)),
            ),
            FailureGroup(OutcomeKind.FAILED, "timeout", 1, 1, None, "", (Example("", "", None),)),
        )


def test_expired_accounts_are_those_still_listed(rig: Rig) -> None:
    rig.catalogue("a", 0, [account(ANNA, status="token_expired"), account(BEN, status="token_expired")])
    rig.scan_twice(CATALOGUE, "b", 24, [account(ANNA, status="token_expired"), account("c")])
    with rig.connection.begin():
        assert expired_accounts(rig.connection) == 1


def test_a_run_has_one_warning_of_each_code_those_that_make_it_partial_first(rig: Rig) -> None:
    with rig.connection.begin():
        for run_id, warning in (
            ("r", RunWarning("a", 1, "First.")),
            ("other", RunWarning("a", 7, "Not of this run.")),
            ("r", RunWarning("z", 3, "Third.", "Do it.", makes_partial=True)),
            ("r", RunWarning("a", 2, "Again.", "Do that.")),
        ):
            ledger.warn(rig.connection, run_id, warning)
        assert ledger.warnings(rig.connection, "r") == (
            RunWarning("z", 3, "Third.", "Do it.", makes_partial=True),
            RunWarning("a", 2, "Again.", "Do that."),
        )
        assert ledger.warnings(rig.connection, "none") == ()
