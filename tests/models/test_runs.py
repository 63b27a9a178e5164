from collections import Counter

import pytest

from models.runs import Finding, OutcomeKind, RunState, Severity, one_line, run_state

COMPLETE, RECENT, SKIPPED, DEFERRED, DENIED, NOT_FOUND, FAILED = OutcomeKind


def test_the_state_of_a_run_follows_from_its_outcomes() -> None:
    for kinds, expected in (
        ([], RunState.COMPLETE),
        ([COMPLETE, SKIPPED], RunState.COMPLETE),
        ([DEFERRED], RunState.PARTIAL),
        ([COMPLETE, DEFERRED], RunState.PARTIAL),
        ([COMPLETE, FAILED], RunState.PARTIAL),
        ([FAILED], RunState.FAILED),
        ([DENIED, NOT_FOUND, SKIPPED], RunState.FAILED),
    ):
        assert run_state(Counter(kinds), stopped=False) is expected
        assert run_state(Counter(kinds), stopped=True) is RunState.FAILED


@pytest.mark.parametrize("kinds", [[], [COMPLETE], [DEFERRED], [FAILED]])
def test_a_run_with_a_warning_that_makes_it_partial_is_never_complete(kinds: list[OutcomeKind]) -> None:
    noted = Finding("values_not_cast", Severity.INFORMATION, "Two", count=2)
    serious = Finding("accounts_missing", Severity.ACTION, "Thirty", count=30)
    expected = RunState.FAILED if kinds == [FAILED] else RunState.PARTIAL
    assert run_state(Counter(kinds), stopped=False, warnings=[noted, serious]) is expected
    assert run_state(Counter(kinds), stopped=False, warnings=[noted]) is run_state(Counter(kinds), stopped=False)
    assert run_state(Counter(kinds), stopped=True, warnings=[serious]) is RunState.FAILED


def test_one_line_is_printable_and_bounded() -> None:
    assert one_line(" a\n\x1b[31mb\u202e\ud83d  c ") == "a [31mb c"
    assert one_line("x" * 201) == "x" * 199 + "…"
    assert one_line("x" * 200) == "x" * 200
    assert one_line("\n" * 5000 + "lost").endswith("…")
