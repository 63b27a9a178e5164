from typing import Any

import pytest

from connectors.warehouse.runs import ledger
from connectors.warehouse.runs.failure_groups import Example, FailureGroup, expired_accounts, failure_groups_of
from models.page_commit import PageCommit
from models.partition import CATALOGUE, Partition
from models.runs import Outcome, OutcomeKind, RunWarning
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, T0, Rig, account, at


def outcome(kind: OutcomeKind, partition: Partition = POSTS, run_id: str = "r", **message: Any) -> PageCommit:  # noqa: ANN401
    return PageCommit(outcomes=(Outcome(partition, run_id, kind, T0, at(1), **message),))


def test_outcomes_are_tallied_by_kind(rig: Rig) -> None:
    rig.record(
        outcome(OutcomeKind.COMPLETE, CATALOGUE),
        outcome(OutcomeKind.COMPLETE, POSTS),
        outcome(OutcomeKind.SKIPPED, STORIES),
        outcome(OutcomeKind.FAILED, POSTS, run_id="other"),
    )
    counted = rig.call(ledger.tally, "r")
    assert (counted.kinds, counted.total) == ({OutcomeKind.COMPLETE: 2, OutcomeKind.SKIPPED: 1}, 3)
    assert rig.call(ledger.tally, "none").total == 0


def test_two_outcomes_of_one_partition_are_refused(rig: Rig) -> None:
    rig.record(outcome(OutcomeKind.COMPLETE), outcome(OutcomeKind.FAILED))
    with pytest.raises(ValueError, match=f"two outcomes of .*{ANNA}.* in run r"):
        rig.call(ledger.tally, "r")


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
    examples = (Example(ANNA, "posts", "c1", ANNA), Example(BEN, "posts", "c1", BEN))
    assert rig.call(failure_groups_of, "r", now=at(0)) == (
        FailureGroup(OutcomeKind.DEFERRED, "rate_limited", 2, 2, at(6), "Wait.", examples),
        FailureGroup(OutcomeKind.FAILED, "timeout", 1, 1, None, "", (Example("", "", None),)),
    )


def test_expired_accounts_are_those_still_listed(rig: Rig) -> None:
    rig.catalogue("a", 0, [account(ANNA, status="token_expired"), account(BEN, status="token_expired")])
    rig.scan_twice(CATALOGUE, "b", 24, [account(ANNA, status="token_expired"), account("c")])
    assert rig.call(expired_accounts) == 1


def test_a_run_has_one_warning_of_each_code_those_that_make_it_partial_first(rig: Rig) -> None:
    serious, last = RunWarning("z", 3, "Third.", "Do it.", makes_partial=True), RunWarning("a", 2, "Again.", "Do that.")
    rig.call(ledger.warn, "other", RunWarning("a", 7, "Not of this run."))
    for warning in (RunWarning("a", 1, "First."), serious, last):
        rig.call(ledger.warn, "r", warning)
    assert rig.call(ledger.warnings, "r") == (serious, last)
    assert rig.call(ledger.warnings, "none") == ()
