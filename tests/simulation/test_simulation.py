"""The simulation, in short: a few seeds are played, each seed repeats itself, and planted bugs are found."""

from dataclasses import replace

import pytest

from tests.simulation.planted import PLANTED
from tests.simulation.play import play
from tests.simulation.shrink import shrink
from tests.simulation.story import Night, Story, World, tell


@pytest.mark.parametrize("seed", range(2))
def test_whatever_befalls_the_nights_the_snapshot_is_what_was_visible(seed: int) -> None:
    played = play(tell(seed, 3))
    assert played.foul is None, f"{played.story.message()}\n{played.foul}"
    assert played.nights == 5
    assert played.ended >= 2


def test_a_seed_plays_the_same_to_the_letter() -> None:
    story = tell(1, 2)
    one, other, another = play(story), play(story), play(replace(story, seed=2))
    assert one.foul is None
    assert one.trace == other.trace
    assert one.trace != another.trace


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_within_few_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first = PLANTED[name]
    plant(monkeypatch)
    assert any(play(tell(seed, 3)).foul for seed in range(first, first + 3))


def test_the_shortest_story_is_told() -> None:
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
