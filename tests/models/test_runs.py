from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from models.findings import Finding, Severity
from models.runs import OutcomeKind, Run, RunState, Tally, resumed_runs, run_state

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(hours=24)
COMPLETE, RECENT, SKIPPED, DEFERRED, DENIED, NOT_FOUND, FAILED = OutcomeKind


def run(name: str, hours_ago: float, resumes: str | None = None, state: RunState = RunState.INTERRUPTED) -> Run:
    return Run(name, "sync", NOON - timedelta(hours=hours_ago), state, resumes)


def tally(kinds: list[OutcomeKind]) -> Tally:
    return Tally(dict(Counter(kinds)))


def chain(*runs: Run, within: timedelta = DAY) -> tuple[str, ...]:
    return resumed_runs(runs, now=NOON, within=within)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([], RunState.COMPLETE),
        ([COMPLETE, SKIPPED], RunState.COMPLETE),
        ([DEFERRED], RunState.PARTIAL),
        ([COMPLETE, DEFERRED], RunState.PARTIAL),
        ([COMPLETE, FAILED], RunState.PARTIAL),
        ([FAILED], RunState.FAILED),
        ([DENIED, NOT_FOUND, SKIPPED], RunState.FAILED),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_the_state_of_a_run_follows_from_its_outcomes(kinds: list[OutcomeKind], expected: RunState) -> None:
    assert run_state(tally(kinds), stopped=False) is expected
    assert run_state(tally(kinds), stopped=True) is RunState.FAILED


@pytest.mark.parametrize("kinds", [[], [COMPLETE], [DEFERRED], [FAILED]])
def test_a_run_with_a_warning_that_makes_it_partial_is_never_complete(kinds: list[OutcomeKind]) -> None:
    noted = Finding("values_not_cast", Severity.INFORMATION, "Two", count=2)
    serious = Finding("accounts_missing", Severity.ACTION, "Thirty", count=30)
    expected = RunState.FAILED if kinds == [FAILED] else RunState.PARTIAL
    assert run_state(tally(kinds), stopped=False, warnings=[noted, serious]) is expected
    assert run_state(tally(kinds), stopped=False, warnings=[noted]) is run_state(tally(kinds), stopped=False)
    assert run_state(tally(kinds), stopped=True, warnings=[serious]) is RunState.FAILED


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.INTERRUPTED])
def test_only_an_interrupted_last_run_is_carried_on(state: RunState) -> None:
    assert chain(run("b", 1, state=state), run("a", 2)) == ()


@pytest.mark.parametrize("state", [RunState.COMPLETE, RunState.PARTIAL, RunState.FAILED])
def test_a_run_whose_snapshot_was_never_in_place_is_carried_on(state: RunState) -> None:
    unpublished = Run("b", "sync", NOON, state, "a", published=False)
    assert chain(unpublished, run("a", 2)) == ("b", "a")


def test_a_chain_is_followed_as_far_as_it_was_interrupted() -> None:
    assert chain(run("c", 1, "b"), run("b", 2, "a"), run("a", 3)) == ("c", "b", "a")
    assert chain(run("c", 1), run("b", 2)) == ("c",)
    assert chain(run("c", 1, "b"), run("b", 2, "a", RunState.FAILED), run("a", 3)) == ("c",)


def test_a_chain_ends_where_its_run_is_forgotten_or_it_is_cyclic() -> None:
    assert chain(run("b", 1, "forgotten")) == ("b",)
    assert chain(run("b", 1, "a"), run("a", 2, "b")) == ("b", "a")


def test_the_age_of_a_chain_is_that_of_its_oldest_run() -> None:
    assert chain(run("b", 1, "a"), run("a", 24)) == ("b", "a")
    assert chain(run("b", 1, "a"), run("a", 24.01)) == ()
