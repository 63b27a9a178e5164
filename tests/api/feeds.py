"""Posts in other orders than newest first, with pins, archived posts and wrong times, all of which the API allows."""

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.sandbox.data.items import DAY, Item
from connectors.sandbox.data.posts import Posts

ORDERS = ("newest_first", "oldest_first", "random", "by_id", "by_last_edit")
START = 1 << 62
_PIN, _ARCHIVE, _DATE, _PLACE = 40, 41, 42, 43

# Days: how long a pin stays, the period of which an archived post is hidden for two days, the error of wrong times.
_PINNED_FOR = 3
_ARCHIVE_DAYS = 5
_CLAIMED = 40


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How posts are listed.

    `pins` are listed first, change every third day and, with `pins_twice`, are listed at their normal position too. Of
    `archived`, `back_dated` and `post_dated` posts, one is hidden for two of five days, or has a time 40 days too early
    or too late; 0: none. `ties`: times of publication are rounded down to this many days.
    """

    order: str = "newest_first"
    pins: int = 0
    pins_twice: bool = False
    archived: int = 0
    back_dated: int = 0
    post_dated: int = 0
    ties: int = 0


PLAIN_FEED = FeedSettings()


@dataclass(frozen=True)
class ArrangedPosts(Posts):
    """Posts listed by the settings. An anchor is a post's sequence; for a pinned post -1, -2, ... by its position."""

    feed: FeedSettings

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the posts after an anchor; `START` yields all."""
        every = {
            item.sequence: (item._replace(published=self._published(position, item)), is_shown)
            for item, is_shown in self.every(position, day, START)
        }
        shown = {
            number: item
            for number, (item, is_shown) in every.items()
            if is_shown and not self._is_archived(position, number, day)
        }
        pins = self._pins(position, day, sorted(shown))
        if sequence == START or sequence < 0:
            first = 0 if sequence == START else -sequence
            for number, pin in list(enumerate(pins))[first:]:
                yield shown[pin]._replace(sequence=-1 - number)
        again = set() if self.feed.pins_twice else set(pins)
        # Hidden posts have a rank, too, so that a cursor at one remains valid.
        ranked = sorted(every, key=lambda number: self._rank(position, every[number][0], day))
        after = ranked.index(sequence) if 0 <= sequence < START else -1
        for number in ranked[after + 1 :]:
            if number in shown and number not in again:
                yield shown[number]

    def _published(self, position: int, item: Item) -> int:
        feed, published = self.feed, item.published
        chance = self.draw.one(_DATE, position, item.sequence)
        if feed.back_dated and chance % feed.back_dated == 0:
            published -= _CLAIMED * DAY
        elif feed.post_dated and chance % feed.post_dated == 0:
            published += _CLAIMED * DAY
        return published - published % (feed.ties * DAY) if feed.ties else published

    def _is_archived(self, position: int, sequence: int, day: int) -> bool:
        every = self.feed.archived
        if not every or (chance := self.draw.one(_ARCHIVE, position, sequence)) % every:
            return False
        return (day + chance // every) % _ARCHIVE_DAYS < 2

    def _pins(self, position: int, day: int, shown: list[int]) -> list[int]:
        drawn = (
            shown[self.draw.one(_PIN, position, number, day // _PINNED_FOR) % len(shown)]
            for number in range(min(self.feed.pins, len(shown)))
        )
        return list(dict.fromkeys(drawn))

    def _rank(self, position: int, item: Item, day: int) -> tuple[int, int]:
        match self.feed.order:
            case "newest_first":
                return -item.published, -item.sequence
            case "oldest_first":
                return item.published, item.sequence
            case "by_id":
                return item.id, 0
            case "by_last_edit":
                # Each day some posts are edited, and come first on that day.
                return -(self.draw.one(_PLACE, position, item.sequence, day) % 16 == 0), -item.sequence
            case _:
                return self.draw.one(_PLACE, position, item.sequence), 0
