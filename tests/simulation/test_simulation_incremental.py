"""Incremental nights, in short: a few seeds are played, and guards that are taken out are found."""

import pytest

from tests.simulation.incremental import play, tell


@pytest.mark.parametrize("seed", [2, 17])
def test_no_row_above_the_depth_is_lost_whatever_befalls_the_nights(seed: int) -> None:
    played, recent = play(tell(seed, 5))
    assert played.foul is None, f"{played.story.told()}\n{played.foul}"
    assert recent


def test_stories_have_every_kind_of_feed() -> None:
    feeds = [tell(seed).world.feed for seed in range(200)]
    assert {feed.order for feed in feeds} >= {"newest_first", "oldest_first", "random", "by_id", "by_last_edit"}
    assert {feed.pins for feed in feeds} == set(range(6))
    assert any(feed.archived for feed in feeds)
    assert any(feed.back_dated for feed in feeds)
