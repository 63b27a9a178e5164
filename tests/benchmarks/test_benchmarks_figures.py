"""Verdicts and latencies computed from measurements."""

import pytest

from benchmarks.candidates.latency import corrected, first_guess
from benchmarks.goals import Goal, judge
from benchmarks.measuring.samples import Sample


def test_a_goal_is_reached_not_reached_or_not_measured() -> None:
    at_most = Goal("work", "large", "figure", 2, other_sizes=("small",))
    at_least = Goal("work", "large", "figure", 2, at_least=True)
    relative = Goal("work", "large", "figure", 1.5, relative_to="small")

    assert judge(at_most, {}).message == "not measured"
    assert judge(at_most, {"small": {"figure": 1}}).message == "only small"
    assert judge(at_most, {"large": {"figure": 2}}).message == "reached"
    assert judge(at_most, {"large": {"figure": 2.1}}).message == "NOT REACHED"
    assert judge(at_least, {"large": {"figure": 1.9}}).message == "NOT REACHED"
    assert judge(relative, {"large": {"figure": 3}}).message == "not measured"
    assert judge(relative, {"large": {"figure": 3}, "small": {"figure": 2}}).measured == 1.5


def test_the_latency_of_a_slow_server_is_computed_from_the_fetch_without_and_with_latency() -> None:
    guess = first_guess(3, Sample(2.0, pages=1000), in_flight=16)
    assert guess == pytest.approx(2.2 * 2.0 * 16 / 1000)
    assert corrected(guess, 6.0, Sample(6.5, pages=1000), in_flight=16) == pytest.approx(guess - 0.5 * 16 / 1000)
    assert corrected(0.001, 6.0, Sample(60.0, pages=1000), in_flight=16) == 0
