"""The simulation, in short: a few seeds are played, each seed repeats itself, and planted bugs are found."""

from dataclasses import replace

import pytest

from connectors.sandbox.settings import ORDERS
from tests.simulation.planted import PLANTED
from tests.simulation.play import play
from tests.simulation.shrink import shrink
from tests.simulation.story import Night, Story, World, tell


# Of an even seed all scans are full; the others have incremental nights, too.
@pytest.mark.parametrize(
    ("seed", "nights", "recent"), [(0, 3, 0), (2, 3, 0), (3, 5, 1), pytest.param(105, 5, 1, marks=pytest.mark.long)]
)
def test_whatever_befalls_the_nights_the_snapshot_is_what_was_visible(seed: int, nights: int, recent: int) -> None:
    played = play(tell(seed, nights))
    assert played.foul is None, f"{played.story.message()}\n{played.foul}"
    assert played.nights == nights + 2 + seed % 2
    assert played.ended >= 2
    assert played.recent >= recent


def test_a_seed_plays_the_same_to_the_letter() -> None:
    story = tell(0, 1)
    one, other, another = play(story), play(story), play(replace(story, seed=2))
    assert one.foul is None
    assert one.trace == other.trace
    assert one.trace != another.trace


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_within_few_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first = PLANTED[name]
    plant(monkeypatch)
    # Only stories of odd seeds have recent scans, which come after a first night.
    assert any(play(tell(seed, 5 if seed % 2 else 3)).foul for seed in range(first, first + 3))


def test_the_shortest_story_is_reported() -> None:
    story = tell(5, 6)
    late = replace(story, nights=(*story.nights, Night(hours=3.0, page_size=50)))

    def fails(tried: Story) -> bool:
        return tried.world.accounts >= 2 and any(night.page_size == 50 for night in tried.nights)

    shortest = shrink(late, fails)
    assert fails(shortest)
    assert shortest.nights == (Night(page_size=50),)
    assert shortest.world == World(seed=story.world.seed, accounts=2, posts=0, stories=0, change_every=0, shape="graph")
    assert shortest.message() == (
        f"seed 5: World(seed={story.world.seed}, accounts=2, posts=0, stories=0, change_every=0, shape='graph')\n"
        "  night 0: Night(page_size=50)"
    )


def test_stories_are_full_of_trouble() -> None:
    nights = [night for seed in range(200) for night in tell(seed).nights]
    crashes = {night.crash.where for night in nights if night.crash}
    assert crashes == {"step", "statement", "before commit", "after commit"}
    kinds = {rule.action.kind for night in nights for rule in night.faults}
    assert len(kinds) >= 20
    assert any(night.turns for night in nights)
    assert any(night.backfill for night in nights)
    assert any(night.forgets_cursors for night in nights)
    assert any(night.account_limit for night in nights)
    assert any(night.catalogue_limit for night in nights)


def test_incremental_nights_have_every_kind_of_feed_and_trouble() -> None:
    stories = [tell(seed) for seed in range(1, 401, 2)]
    feeds = [story.world.feed for story in stories]
    assert {feed.order for feed in feeds} == set(ORDERS)
    assert {feed.pins for feed in feeds} == set(range(6))
    for name in ("pins_twice", "archived", "back_dated", "post_dated", "ties"):
        assert any(getattr(feed, name) for feed in feeds)
    nights = [night for story in stories for night in story.nights if night.mode == "incremental"]
    assert {night.crash.where for night in nights if night.crash} == {
        "step", "statement", "before commit", "after commit",
    }  # fmt: skip
    faults = {rule.action.kind for night in nights for rule in night.faults}
    assert faults >= {"error", "reset", "cut", "refuse_cursor", "forget_cursors", "item_twice", "item_without_id"}
    for name in ("turns", "backfill", "forgets_cursors", "account_limit", "max_requests"):
        assert any(getattr(night, name) for night in nights)
    assert any(story.world.change_every for story in stories)
