"""Posts in other orders than newest first, with pins, archived posts and wrong times, all of which the API allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.sandbox.data.calendar import DAY
from connectors.sandbox.data.posts import START, Posts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.sandbox.data.draw import Draw
    from connectors.sandbox.data.posts import Item
    from connectors.sandbox.settings import FeedSettings

_PIN, _ARCHIVE, _DATE, _PLACE = 40, 41, 42, 43

# Days: how long a pin stays, the period of which an archived post is hidden for two days, the error of wrong times.
_PINNED_FOR = 3
_ARCHIVE_DAYS = 5
_CLAIMED = 40


class ArrangedPosts:
    """The surface ``posts``, listed according to the feed's settings.

    An anchor is the sequence of a page's last post; for a pinned post it is -1, -2, ... by its position.
    """

    def __init__(self, posts: Posts, feed: FeedSettings, draw: Draw) -> None:
        self._posts = posts
        self._feed = feed
        self._draw = draw

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the posts after an anchor; ``START`` yields all."""
        shown = {item.sequence: item for item in self._shown(position, day)}
        pins = self._pins(position, day, sorted(shown))
        if sequence == START or sequence < 0:
            first = 0 if sequence == START else -sequence
            for number, pin in list(enumerate(pins))[first:]:
                yield shown[pin]._replace(sequence=-1 - number)
        again = set() if self._feed.pins_twice else set(pins)
        ranks = self._ranks(position, day)
        after = ranks.get(sequence, -1) if 0 <= sequence < START else -1
        for other, rank in sorted(ranks.items(), key=lambda found: found[1]):
            if rank > after and other in shown and other not in again:
                yield shown[other]

    def _shown(self, position: int, day: int) -> Iterator[Item]:
        for item in self._posts.before(position, day, START):
            if not self._is_archived(position, item.sequence, day):
                yield item._replace(published=self._published(position, item))

    def _published(self, position: int, item: Item) -> int:
        feed, published = self._feed, item.published
        chance = self._draw.one(_DATE, position, item.sequence)
        if feed.back_dated and chance % feed.back_dated == 0:
            published -= _CLAIMED * DAY
        elif feed.post_dated and chance % feed.post_dated == 0:
            published += _CLAIMED * DAY
        return published - published % (feed.ties * DAY) if feed.ties else published

    def _is_archived(self, position: int, sequence: int, day: int) -> bool:
        every = self._feed.archived
        if not every or (chance := self._draw.one(_ARCHIVE, position, sequence)) % every:
            return False
        return (day + chance // every) % _ARCHIVE_DAYS < 2

    def _pins(self, position: int, day: int, shown: list[int]) -> list[int]:
        wanted = min(self._feed.pins, len(shown))
        pins: list[int] = []
        for number in range(wanted):
            pin = shown[self._draw.one(_PIN, position, number, day // _PINNED_FOR) % len(shown)]
            if pin not in pins:
                pins.append(pin)
        return pins

    def _ranks(self, position: int, day: int) -> dict[int, int]:
        """Return the rank of each post, including hidden ones, so that a cursor at a hidden post remains valid."""
        every = list(self._posts.ever(position, day))
        draw, order = self._draw, self._feed.order
        if order == "newest_first":
            every.sort(key=lambda item: (-self._published(position, item), -item.sequence))
        elif order == "oldest_first":
            every.sort(key=lambda item: (self._published(position, item), item.sequence))
        elif order == "by_id":
            every.sort(key=lambda item: item.id)
        elif order == "by_last_edit":
            # Each day some posts are edited, and come first on that day.
            every.sort(key=lambda item: (-(draw.one(_PLACE, position, item.sequence, day) % 16 == 0), -item.sequence))
        else:
            every.sort(key=lambda item: draw.one(_PLACE, position, item.sequence))
        return {item.sequence: rank for rank, item in enumerate(every)}
