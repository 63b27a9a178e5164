"""The shortest story that still goes wrong: greedily fewer days, fewer faults, a smaller world."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from connectors.sandbox.settings import PLAIN_FEED
from tests.simulation.story import Day, Story, World

_PLAIN = Day()
_NAMES = [name for name in Day.__slots__ if name != "faults"]


def _without_days(story: Story) -> Iterator[Story]:
    for number in reversed(range(len(story.days))):
        yield replace(story, days=story.days[:number] + story.days[number + 1 :])


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
    for place in range(len(day.faults)):
        yield replace(day, faults=day.faults[:place] + day.faults[place + 1 :])
    for name in _NAMES:
        if getattr(day, name) != getattr(_PLAIN, name):
            yield replace(day, **{name: getattr(_PLAIN, name)})


def simpler(story: Story) -> Iterator[Story]:
    """Every story that is simpler by one thing, the boldest first."""
    yield from _without_days(story)
    for world in _smaller_worlds(story.world):
        yield replace(story, world=world)
    for number, day in enumerate(story.days):
        for plainer in _plainer(day):
            yield replace(story, days=(*story.days[:number], plainer, *story.days[number + 1 :]))


def shrink(story: Story, fails: Callable[[Story], bool], *, plays: int = 60) -> Story:
    """Return the shortest story found that still fails, trying at most so many."""
    tried = 0
    begin = True
    while begin:
        begin = False
        for candidate in simpler(story):
            if tried == plays:
                return story
            tried += 1
            if fails(candidate):
                story, begin = candidate, True
                break
    return story
