"""Shrinks a failing scenario greedily: fewer days, fewer faults, less data."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.odd_api.feeds import PLAIN_FEED
from tests.simulation.scenario import Day, Scenario, World

_PLAIN = Day()
_NAMES = [name for name in Day.__slots__ if name != "faults"]


def _without_days(scenario: Scenario) -> Iterator[Scenario]:
    for number in reversed(range(len(scenario.days))):
        yield replace(scenario, days=scenario.days[:number] + scenario.days[number + 1 :])


def _smaller_worlds(world: World) -> Iterator[World]:
    if world.accounts > 1:
        yield replace(world, accounts=world.accounts - 1)
    for name in ("posts", "stories", "change_every"):
        if getattr(world, name):
            yield replace(world, **{name: getattr(world, name) // 2})
    if world.feed != PLAIN_FEED:
        yield replace(world, feed=PLAIN_FEED)
    if world.shape != "graph":
        yield replace(world, shape="graph")


def _plainer(day: Day) -> Iterator[Day]:
    for index in range(len(day.faults)):
        yield replace(day, faults=day.faults[:index] + day.faults[index + 1 :])
    for name in _NAMES:
        if getattr(day, name) != getattr(_PLAIN, name):
            yield replace(day, **{name: getattr(_PLAIN, name)})


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Yield every scenario that is simpler in one respect, the largest reductions first."""
    yield from _without_days(scenario)
    for world in _smaller_worlds(scenario.world):
        yield replace(scenario, world=world)
    for number, day in enumerate(scenario.days):
        for plainer in _plainer(day):
            yield replace(scenario, days=(*scenario.days[:number], plainer, *scenario.days[number + 1 :]))


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, attempts: int = 60) -> Scenario:
    """Return the simplest scenario found that still fails, after at most `plays` simulations."""
    tried = 0
    found = True
    while found:
        found = False
        for candidate in simpler(scenario):
            if tried == attempts:
                return scenario
            tried += 1
            if fails(candidate):
                scenario, found = candidate, True
                break
    return scenario
