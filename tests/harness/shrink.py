"""Leaves out what a failing scenario does not need, as long as it still fails."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace

from tests.harness.scenario import Day, Scenario

# What is left out: `3` is day 3, `3.crash` its crash, and `3.faults.1` the second of its faults.
Left = tuple[str, ...]
_PLAIN = Day(number=0)


def without(scenario: Scenario, left_out: Iterable[str]) -> Scenario:
    """Return a scenario without these days and parts of days."""
    out = set(left_out)
    days = [_day_without(day, out) for day in scenario.days if f"{day.number}" not in out]
    return replace(scenario, days=tuple(days))


def _day_without(day: Day, out: set[str]) -> Day:
    changes: dict[str, object] = {}
    for name in _parts(day):
        value = getattr(day, name)
        if f"{day.number}.{name}" in out:
            changes[name] = getattr(_PLAIN, name)
        elif isinstance(value, tuple):
            changes[name] = tuple(one for place, one in enumerate(value) if f"{day.number}.{name}.{place}" not in out)
    return replace(day, **changes)  # type: ignore[arg-type]


def _parts(day: Day) -> list[str]:
    """Return the fields of a day that differ from those of a plain one."""
    names = [one.name for one in fields(day) if one.name != "number"]
    return [name for name in names if getattr(day, name) != getattr(_PLAIN, name)]


def _candidates(scenario: Scenario) -> Iterator[str]:
    """Yield what may be left out: days, the last first, then their parts, then each of several faults."""
    for day in reversed(scenario.days):
        yield f"{day.number}"
    for day in scenario.days:
        yield from (f"{day.number}.{name}" for name in _parts(day))
    for day in scenario.days:
        for name in ("faults", "upkeep", "day_changes"):
            yield from (f"{day.number}.{name}.{place}" for place in range(len(getattr(day, name))))


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, most: int = 60) -> Left:
    """Return what a failing scenario does not need; at most `most` scenarios are tried."""
    left: Left = ()
    for tried, one in enumerate(_candidates(scenario)):
        if tried >= most:
            break
        # A part of a day that is gone already.
        if one.partition(".")[0] in left or one.rpartition(".")[0] in left:
            continue
        if fails(without(scenario, (*left, one))):
            left = (*left, one)
    return left


def command(scenario: Scenario, days: int, left_out: Left) -> str:
    """Return the command that repeats a scenario."""
    more = f" --without {' '.join(left_out)}" if left_out else ""
    return f"python -m tests.harness --seeds 1 --first {scenario.seed} --days {days}{more}"
