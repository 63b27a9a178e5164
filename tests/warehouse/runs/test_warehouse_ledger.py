from datetime import timedelta
from typing import Any

import pytest

from connectors.warehouse.runs import ledger
from connectors.warehouse.runs.failure_groups import Example, FailureGroup, expired_accounts, failure_groups_of
from models.page_commit import PageCommit
from models.partition import CATALOGUE, Partition
from models.runs import Outcome, OutcomeKind, RunState, RunWarning
from tests.warehouse.house import ANNA, BEN, POSTS, STORIES, T0, House, account, at

DAY = timedelta(hours=24)


def begin(house: House, run_id: str, hour: float, kind: str = "sync") -> tuple[str, ...]:
    with house.connection.begin():
        return ledger.begin(house.connection, run_id, kind, now=at(hour), within=DAY, version="1.2")


def finish(house: House, run_id: str, hour: float, state: RunState, **columns: object) -> None:
    with house.connection.begin():
        ledger.end(house.connection, run_id, state, now=at(hour), **columns)


def publish(house: House, hour: float) -> None:
    with house.connection.begin():
        ledger.mark_published(house.connection, now=at(hour))


def outcome(kind: OutcomeKind, partition: Partition = POSTS, run_id: str = "r", **message: Any) -> PageCommit:  # noqa: ANN401
    return PageCommit(outcomes=(Outcome(partition, run_id, kind, T0, at(1), **message),))


def test_a_run_is_entered_and_closed_with_what_it_did(house: House) -> None:
    assert begin(house, "r", 0) == ()
    assert house.row("SELECT state, started_at, ended_at, resumes, version FROM core.runs") == (
        "running", T0, None, None, "1.2",
    )  # fmt: skip
    finish(house, "r", 2, RunState.PARTIAL, accounts=3, partitions=5, error_code="e", detail="It's so.")
    assert house.row("SELECT state, ended_at, accounts, partitions, error_code, detail FROM core.runs") == (
        "partial", at(2), 3, 5, "e", "It's so.",
    )  # fmt: skip


def test_a_run_that_died_is_marked_and_carried_on_with_those_before_it(house: House) -> None:
    assert begin(house, "a", 0) == ()
    assert begin(house, "b", 1) == ("a",)
    assert begin(house, "c", 2) == ("b", "a")
    assert house.rows("SELECT run_id, state, resumes FROM core.runs ORDER BY started_at") == [
        ("a", "interrupted", None),
        ("b", "interrupted", "a"),
        ("c", "running", "b"),
    ]
    finish(house, "c", 3, RunState.COMPLETE)
    publish(house, 3)
    assert begin(house, "d", 4) == ()


def test_a_run_that_ended_but_was_not_published_is_carried_on(house: House) -> None:
    begin(house, "a", 0)
    finish(house, "a", 1, RunState.COMPLETE)
    assert begin(house, "b", 2) == ("a",)
    finish(house, "b", 3, RunState.COMPLETE)
    publish(house, 3)
    assert begin(house, "c", 4) == ()
    assert house.rows("SELECT run_id, published_at FROM core.runs ORDER BY started_at") == [
        ("a", at(3)),
        ("b", at(3)),
        ("c", None),
    ]


def test_runs_are_ordered_by_their_sequence_and_not_by_the_clock(house: House) -> None:
    """The clock was days ahead during `ahead`: it is not the last run once another has begun."""
    begin(house, "ahead", 90)
    finish(house, "ahead", 91, RunState.COMPLETE)
    publish(house, 91)
    assert begin(house, "a", 0) == ()
    assert begin(house, "b", 1) == ("a",)
    assert house.rows("SELECT run_id, seq FROM core.runs ORDER BY seq") == [("ahead", 1), ("a", 2), ("b", 3)]


def test_a_chain_that_began_too_long_ago_is_not_carried_on(house: House) -> None:
    begin(house, "a", 0)
    assert begin(house, "b", 24) == ("a",)
    assert begin(house, "c", 24.1) == ()
    assert begin(house, "d", 25) == ("c",)


def test_a_backfill_carries_on_no_sync_but_marks_it_dead(house: House) -> None:
    begin(house, "a", 0)
    assert begin(house, "b", 1, kind="backfill") == ()
    assert house.value("SELECT state FROM core.runs WHERE run_id = 'a'") == "interrupted"
    assert begin(house, "c", 2) == ("a",)


def test_only_a_run_asked_to_scan_the_same_is_carried_on(house: House) -> None:
    def enter(run_id: str, hour: float, selection: str | None) -> tuple[str, ...]:
        with house.connection.begin():
            message: dict[str, Any] = {"selection": selection, "reason": f"why {run_id}"}
            return ledger.begin(
                house.connection, run_id, "backfill", now=at(hour), within=DAY, version="1.2", **message
            )

    assert enter("a", 0, "anna: posts") == ()
    assert enter("b", 1, "ben: posts") == ()
    assert enter("c", 2, None) == ()
    assert enter("d", 3, "anna: posts") == ("a",)
    assert enter("e", 4, None) == ("c",)
    assert house.rows("SELECT run_id, kind, selection, reason, resumes FROM core.runs ORDER BY started_at") == [
        ("a", "backfill", "anna: posts", "why a", None),
        ("b", "backfill", "ben: posts", "why b", None),
        ("c", "backfill", None, "why c", None),
        ("d", "backfill", "anna: posts", "why d", "a"),
        ("e", "backfill", None, "why e", "c"),
    ]


def test_outcomes_are_tallied_by_kind(house: House) -> None:
    house.land(
        outcome(OutcomeKind.COMPLETE, CATALOGUE),
        outcome(OutcomeKind.COMPLETE, POSTS),
        outcome(OutcomeKind.SKIPPED, STORIES),
        outcome(OutcomeKind.FAILED, POSTS, run_id="other"),
    )
    with house.connection.begin():
        counted = ledger.tally(house.connection, "r")
        assert (counted.kinds, counted.total) == ({OutcomeKind.COMPLETE: 2, OutcomeKind.SKIPPED: 1}, 3)
        assert ledger.tally(house.connection, "none").total == 0


def test_two_outcomes_of_one_partition_are_refused(house: House) -> None:
    house.land(outcome(OutcomeKind.COMPLETE), outcome(OutcomeKind.FAILED))
    with house.connection.begin(), pytest.raises(ValueError, match=f"two outcomes of .*{ANNA}.* in run r"):
        ledger.tally(house.connection, "r")


def test_concerns_group_what_went_wrong_with_the_most_first(house: House) -> None:
    message: dict[str, Any] = {
        "error_code": "rate_limited",
        "resume_after": at(5),
        "correlation_id": "c1",
        "detail": "Wait.",
    }
    house.land(
        outcome(OutcomeKind.COMPLETE, STORIES),
        outcome(OutcomeKind.FAILED, CATALOGUE, error_code="timeout"),
        outcome(OutcomeKind.DEFERRED, POSTS, **message),
        outcome(OutcomeKind.DEFERRED, Partition("media", BEN, "posts"), **message | {"resume_after": at(6)}),
        outcome(OutcomeKind.SKIPPED, Partition("media", BEN, "stories")),
    )
    with house.connection.begin():
        assert failure_groups_of(house.connection, "r") == (
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


def test_expired_accounts_are_those_still_listed(house: House) -> None:
    house.catalogue("a", 0, [account(ANNA, status="token_expired"), account(BEN, status="token_expired")])
    house.catalogue("b", 24, [account(ANNA, status="token_expired"), account("c")])
    with house.connection.begin():
        assert expired_accounts(house.connection) == 1


def test_a_run_has_one_warning_of_each_code_those_that_make_it_partial_first(house: House) -> None:
    with house.connection.begin():
        for run_id, warning in (
            ("r", RunWarning("a", 1, "First.")),
            ("other", RunWarning("a", 7, "Not of this run.")),
            ("r", RunWarning("z", 3, "Third.", "Do it.", makes_partial=True)),
            ("r", RunWarning("a", 2, "Again.", "Do that.")),
        ):
            ledger.warn(house.connection, run_id, warning)
        assert ledger.warnings(house.connection, "r") == (
            RunWarning("z", 3, "Third.", "Do it.", makes_partial=True),
            RunWarning("a", 2, "Again.", "Do that."),
        )
        assert ledger.warnings(house.connection, "none") == ()
