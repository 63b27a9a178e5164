"""The simulation, in short: a few seeds are played, each seed repeats itself, and planted bugs are found."""

from dataclasses import replace

import pytest

from connectors.sandbox.settings import ORDERS
from tests.simulation.planted import PLANTED
from tests.simulation.play import play
from tests.simulation.shrink import shrink
from tests.simulation.story import Day, Story, World, tell


# Of an even seed all scans are full; the others have incremental days, too.
@pytest.mark.parametrize(
    ("seed", "days", "recent"), [(0, 3, 0), (2, 3, 0), (3, 5, 1), pytest.param(105, 5, 1, marks=pytest.mark.long)]
)
def test_whatever_befalls_the_runs_the_snapshot_is_what_was_visible(seed: int, days: int, recent: int) -> None:
    played = play(tell(seed, days))
    assert played.foul is None, f"{played.story.message()}\n{played.foul}"
    assert played.days == days + 2 + seed % 2
    assert played.ended >= 2
    assert played.recent >= recent


def test_a_seed_plays_the_same_to_the_letter() -> None:
    story = tell(0, 1)
    one, other, another = play(story), play(story), play(replace(story, seed=2))
    assert one.foul is None
    assert one.trace == other.trace
    assert one.trace != another.trace


# The two that are found soonest are looked for every time.
_SOON = ("dropped page", "tombstones after a partial scan")
_PLANTED = [pytest.param(name, marks=() if name in _SOON else (pytest.mark.long,)) for name in PLANTED]


@pytest.mark.parametrize("name", _PLANTED)
def test_a_planted_bug_is_found_within_few_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first = PLANTED[name]
    plant(monkeypatch)
    # Only stories of odd seeds have recent scans, which come after a first day.
    assert any(play(tell(seed, 5 if seed % 2 else 3)).foul for seed in range(first, first + 3))


def test_the_shortest_story_is_reported() -> None:
    story = tell(5, 6)
    late = replace(story, days=(*story.days, Day(hours=3.0, page_size=50)))

    def fails(tried: Story) -> bool:
        return tried.world.accounts >= 2 and any(day.page_size == 50 for day in tried.days)

    shortest = shrink(late, fails)
    assert fails(shortest)
    assert shortest.days == (Day(page_size=50),)
    assert shortest.world == World(seed=story.world.seed, accounts=2, posts=0, stories=0, change_every=0, shape="graph")
    assert shortest.message() == (
        f"seed 5: World(seed={story.world.seed}, accounts=2, posts=0, stories=0, change_every=0, shape='graph')\n"
        "  day 0: Day(page_size=50)"
    )


def test_stories_are_full_of_trouble() -> None:
    days = [day for seed in range(200) for day in tell(seed).days]
    crashes = {day.crash.where for day in days if day.crash}
    assert crashes == {"step", "statement", "before commit", "after commit"}
    kinds = {rule.action.kind for day in days for rule in day.faults}
    assert len(kinds) >= 20
    assert any(day.turns for day in days)
    assert any(day.backfill for day in days)
    assert any(day.forgets_cursors for day in days)
    assert any(day.account_limit for day in days)
    assert any(day.catalogue_limit for day in days)


def test_incremental_runs_have_every_kind_of_feed_and_trouble() -> None:
    stories = [tell(seed) for seed in range(1, 401, 2)]
    feeds = [story.world.feed for story in stories]
    assert {feed.order for feed in feeds} == set(ORDERS)
    assert {feed.pins for feed in feeds} == set(range(6))
    for name in ("pins_twice", "archived", "back_dated", "post_dated", "ties"):
        assert any(getattr(feed, name) for feed in feeds)
    days = [day for story in stories for day in story.days if day.mode == "incremental"]
    assert {day.crash.where for day in days if day.crash} == {
        "step", "statement", "before commit", "after commit",
    }  # fmt: skip
    faults = {rule.action.kind for day in days for rule in day.faults}
    assert faults >= {"error", "reset", "cut", "refuse_cursor", "forget_cursors", "item_twice", "item_without_id"}
    for name in ("turns", "backfill", "forgets_cursors", "account_limit", "max_requests"):
        assert any(getattr(day, name) for day in days)
    assert any(story.world.change_every for story in stories)
