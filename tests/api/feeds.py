"""Posts in other orders than newest first, with pins, archived posts and wrong times, all of which the API allows."""

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.sandbox.data.catalogue import FIRST_ITEM
from connectors.sandbox.data.items import DAY, Item
from connectors.sandbox.data.posts import Posts

ORDERS = ("newest_first", "random", "by_last_edit")
_PIN, _ARCHIVE, _DATE, _PLACE = 40, 41, 42, 43

# Days: how long a pin stays, the period of which an archived post is hidden for two days, the error of wrong times.
_PINNED_FOR = 3
_ARCHIVE_DAYS = 5
_CLAIMED = 40


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How posts are listed.

    `pins` are listed first, change every third day and, with `pins_twice`, are listed at their normal position too. Of
    `archived` posts, one is hidden for two of five days; of `misdated` ones, every other one has a time 40 days too
    early, the others too late; 0: none.
    """

    order: str = "newest_first"
    pins: int = 0
    pins_twice: bool = False
    archived: int = 0
    misdated: int = 0


PLAIN_FEED = FeedSettings()


@dataclass(frozen=True)
class ArrangedPosts(Posts):
    """Posts listed by the settings. An anchor is a post's sequence; for a pinned post -1, -2, ... by its position."""

    feed: FeedSettings

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the posts after an anchor; `FIRST_ITEM` yields all."""
        every = {
            item.sequence: (item._replace(published=self._published(position, item)), is_shown)
            for item, is_shown in self.every(position, day, FIRST_ITEM)
        }
        shown = {
            number: item
            for number, (item, is_shown) in every.items()
            if is_shown and not self._is_archived(position, number, day)
        }
        pins = self._pins(position, day, sorted(shown))
        first = 0 if sequence == FIRST_ITEM else -sequence if sequence < 0 else len(pins)
        for number, pin in list(enumerate(pins))[first:]:
            yield shown[pin]._replace(sequence=-1 - number)
        again = set() if self.feed.pins_twice else set(pins)
        # Hidden posts have a rank, too, so that a cursor at one remains valid.
        ranked = sorted(every, key=lambda number: self._rank(position, every[number][0], day))
        after = ranked.index(sequence) if 0 <= sequence < FIRST_ITEM else -1
        for number in ranked[after + 1 :]:
            if number in shown and number not in again:
                yield shown[number]

    def _published(self, position: int, item: Item) -> int:
        chance, every = self.draw.one(_DATE, position, item.sequence), self.feed.misdated
        if not every or chance % every:
            return item.published
        return item.published + _CLAIMED * DAY * (1 if chance // every % 2 else -1)

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
            case "by_last_edit":
                # Each day some posts are edited, and come first on that day.
                return -(self.draw.one(_PLACE, position, item.sequence, day) % 16 == 0), -item.sequence
            case _:
                return self.draw.one(_PLACE, position, item.sequence), 0
