"""Runs a seed, and leaves out what a failing scenario does not need, as long as it still fails."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace

from tests.harness.scenario import Day, Scenario, generate
from tests.harness.simulation import Result, simulate

_PLAIN = Day(number=0)


def _parts(day: Day) -> Iterator[str]:
    """Yield the fields of a day that differ from those of a plain one, then each of several faults."""
    names = [each.name for each in fields(day)[1:] if getattr(day, each.name) != getattr(_PLAIN, each.name)]
    yield from names
    for name in names:
        value = getattr(day, name)
        yield from (f"{name}.{place}" for place in range(len(value))) if isinstance(value, tuple) else ()


def without(scenario: Scenario, left_out: Iterable[str]) -> Scenario:
    """Return a scenario without parts: `3` is day 3, `3.crash` its crash, `3.faults.1` the second of its faults."""
    out, days = set(left_out), list[Day]()
    for day in scenario.days:
        changes: dict[str, object] = {}
        for part in _parts(day):
            name, _, place = part.partition(".")
            if f"{day.number}.{name}" in out:
                changes[name] = getattr(_PLAIN, name)
            elif place and name not in changes:
                places = enumerate(getattr(day, name))
                changes[name] = tuple(each for n, each in places if f"{day.number}.{name}.{n}" not in out)
        if f"{day.number}" not in out:
            days.append(replace(day, **changes))  # type: ignore[arg-type]
    return replace(scenario, days=tuple(days))


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, most: int = 60) -> list[str]:
    """Return what a failing scenario does not need: days, the last first, then parts; at most `most` are tried."""
    candidates = [f"{day.number}" for day in reversed(scenario.days)]
    candidates += [f"{day.number}.{part}" for day in scenario.days for part in _parts(day)]
    left: list[str] = []
    for one in candidates[:most]:
        is_gone = any(one.startswith(f"{gone}.") for gone in left)
        if not is_gone and fails(without(scenario, (*left, one))):
            left.append(one)
    return left


def run_seed(seed: int, days: int, left_out: Iterable[str] = (), *, shrinks: bool = True) -> tuple[Result, str]:
    """Simulate a seed without some parts; return the result, and how to repeat a failure with as little as possible."""
    scenario, left = without(generate(seed, days), left_out), [*left_out]
    result = simulate(scenario)
    if result.violation is None:
        return result, ""
    if shrinks:
        left += shrink(scenario, lambda smaller: simulate(smaller).violation is not None)
        result = simulate(without(scenario, left))
    options = f" --without {' '.join(left)}" if left else ""
    command = f"python -m tests.harness --seeds 1 --first {seed} --days {days}{options}"
    return result, f"{result.scenario}\n{result.violation}\nRepeat: {command}\n\n"
