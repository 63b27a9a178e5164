"""Incremental nights, in short: a few seeds are played, and guards that are taken out are found."""

from collections.abc import Callable, Mapping

import pytest

from connectors.warehouse.merge import removal
from flows.engine import scan_depth
from models import incremental
from models.incremental import ClosedScan, Feed, FullReason, Incremental
from tests.simulation.incremental import play, tell

_why_full = incremental.why_full


def _unproved(patch: pytest.MonkeyPatch) -> None:
    """No order is looked at: known posts stop a scan."""

    def why_full(closed: ClosedScan | None, mode: Incremental | None) -> FullReason | None:
        why = _why_full(closed, mode)
        return None if why is FullReason.UNPROVED else why

    patch.setattr(scan_depth, "why_full", why_full)
    patch.setattr(Feed, "reaches_known", property(lambda feed: feed.known_run >= incremental.KNOWN_RUN))


def _one_look(patch: pytest.MonkeyPatch) -> None:
    """What a recent scan misses is marked at once."""
    second = " AND (x.since IS NOT NULL OR NOT x.is_recent))"
    assert second in removal._GONE  # noqa: SLF001
    patch.setattr(removal, "_GONE", removal._GONE.replace(second, ")"))  # noqa: SLF001


# Each with a seed that finds it, or did when this was written: the stories change when their telling does.
PLANTED: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], int]] = {
    "an order that nobody proved": (_unproved, 8),
    "one look removes": (_one_look, 10),
}


@pytest.mark.parametrize("seed", [2, 17])
def test_no_row_above_the_depth_is_lost_whatever_befalls_the_nights(seed: int) -> None:
    played, recent = play(tell(seed, 5))
    assert played.foul is None, f"{played.story.message()}\n{played.foul}"
    assert recent


@pytest.mark.parametrize("name", PLANTED)
def test_a_guard_that_is_taken_out_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first = PLANTED[name]
    plant(monkeypatch)
    assert any(play(tell(seed, 5))[0].foul for seed in range(first, first + 3))


def test_stories_have_every_kind_of_feed() -> None:
    feeds = [tell(seed).world.feed for seed in range(200)]
    assert {feed.order for feed in feeds} >= {"newest_first", "oldest_first", "random", "by_id", "by_last_edit"}
    assert {feed.pins for feed in feeds} == set(range(6))
    assert any(feed.archived for feed in feeds)
    assert any(feed.back_dated for feed in feeds)
