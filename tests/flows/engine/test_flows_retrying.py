"""Which runs are retried and when; the last one decides the exit code."""

from collections import Counter
from dataclasses import replace

import pytest

from connectors.source.errors import ApiError
from connectors.warehouse.queries.outcomes import FailureGroup
from flows.engine.retrying import DELAYS, Retry, next_retry, repeat
from flows.orchestration.flow_run import final_state
from flows.reporting.run_report import RunReport
from models.runs import Finding, OutcomeKind, RunState, Severity
from tests.flows import reports

STOP = ApiError("accounts.list", "api_unauthorized", "No.", status=401)
FAILED = reports.report(state=RunState.FAILED, outcomes=Counter({OutcomeKind.FAILED: 1}))
GOOD = replace(FAILED, state=RunState.COMPLETE, outcomes=Counter({OutcomeKind.COMPLETE: 9}))


def group(code: str, scans: int = 1, kind: OutcomeKind = OutcomeKind.FAILED, surface: str = "posts") -> FailureGroup:
    return FailureGroup(kind, code, scans, scans, None, "No.", (reports.example("anna", surface),))


def ended(*groups: FailureGroup, complete: int = 0, skipped: int = 0, stopped_by: ApiError | None = None) -> RunReport:
    """Return the report of a run with these failures and numbers of complete and skipped scans."""
    tally = {OutcomeKind.COMPLETE: complete, OutcomeKind.SKIPPED: skipped}
    for each in groups:
        tally[each.outcome] = tally.get(each.outcome, 0) + each.scans
    state = RunState.PARTIAL if complete else RunState.FAILED
    return replace(FAILED, failure_groups=groups, outcomes=Counter(tally), state=state, stopped_by=stopped_by)


CATALOGUE = group("connection_failed", surface="")


def test_a_run_is_retried_only_if_it_failed_as_a_whole_in_passing() -> None:
    for report, retryable in (
        (ended(CATALOGUE), True),
        (ended(group("http_502", surface="")), True),
        # Without the catalogue, accounts that it did not list were never requested.
        (ended(CATALOGUE, complete=9), True),
        (ended(group("timeout", 51), complete=49), True),
        (ended(group("timeout", 49), complete=51), False),
        (ended(group("timeout", 26), group("http_503", 26), complete=48), True),
        (ended(group("api_forbidden", 100, OutcomeKind.DENIED)), False),
        (ended(group("cursor_loop", 100)), False),
        # The cooldown is longer than the retry delays, and the next run honours it.
        (ended(group("rate_limited", 100, OutcomeKind.DEFERRED)), False),
        (ended(group("api_unauthorized", surface=""), stopped_by=STOP), False),
        (ended(group("timeout", 51), complete=49, stopped_by=STOP), False),
        (GOOD, False),
    ):
        assert (next_retry(report, 0, 3, lambda: 0.0) is not None) == retryable


def test_the_delays_grow_and_their_jitter_only_adds() -> None:
    assert DELAYS == (300, 900, 3600)
    found = [next_retry(ended(CATALOGUE), made, 5, lambda: 0.0) for made in range(6)]
    assert [each and (each.number, each.limit, each.seconds) for each in found] == [
        (1, 5, 300), (2, 5, 900), (3, 5, 3600), (4, 5, 3600), (5, 5, 3600), None,
    ]  # fmt: skip
    late = next_retry(ended(CATALOGUE), 0, 1, lambda: 1.0)
    assert late == Retry(1, 1, 300 * 1.1, "connection_failed")


@pytest.mark.anyio
async def test_the_report_of_the_last_attempt_is_returned() -> None:
    happened, left = list[str | float](), [ended(CATALOGUE), ended(CATALOGUE), GOOD]

    async def make() -> RunReport:
        return left.pop(0)

    async def sleep(seconds: float) -> None:
        happened.append(seconds)

    async def announce(_: RunReport, retry: Retry | None) -> None:
        happened.append(str(retry))

    assert await repeat(make, 3, sleep=sleep, random=lambda: 0.0, announce=announce) is GOOD
    assert happened == [
        "Retry 1 of 3 in 5 min (connection_failed)", 300, "Retry 2 of 3 in 15 min (connection_failed)", 900,
        "None",
    ]  # fmt: skip


MISSING = Finding("accounts_missing", Severity.ACTION, "30 are missing", "check", count=30)


def test_the_state_of_a_partial_run_follows_outcomes_with_a_reason() -> None:
    for report, state, reason in (
        (ended(group("rate_limited", 102, OutcomeKind.DEFERRED), complete=20), "FAILED", "102 scans deferred"),
        (ended(group("timeout", 51), complete=49), "FAILED", "51 scans failed"),
        (ended(group("timeout", 50), complete=50, skipped=100), "COMPLETED", "50 scans failed"),
        (replace(GOOD, state=RunState.PARTIAL, warnings=(MISSING,)), "COMPLETED", "30 are missing. Fix: check"),
    ):
        found = final_state(report)
        assert (found.type.value, found.name) == (state, state.capitalize())
        assert str(found.message).startswith(reason)
