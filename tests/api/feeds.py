"""Posts in other orders than newest first, with pins, archived posts and wrong times, all of which the API allows."""

from collections.abc import Iterator
from dataclasses import dataclass

from connectors.sandbox.data.catalogue import FIRST_ITEM
from connectors.sandbox.data.items import DAY, Item
from connectors.sandbox.data.posts import Posts

ORDERS = ("newest_first", "random", "by_last_edit")
_PIN, _ARCHIVE, _DATE, _PLACE = 40, 41, 42, 43
# Days: how long a pin stays, the period of which an archived post is hidden for two days, the error of wrong times.
_PINNED_FOR, _ARCHIVE_DAYS, _CLAIMED = 3, 5, 40


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
        posts, shown = dict[int, Item](), dict[int, Item]()
        for item, is_shown in self.every(position, day, FIRST_ITEM):
            number = item.sequence
            posts[number] = item._replace(published=item.published + self._error(position, number) * _CLAIMED * DAY)
            if is_shown and not self._is_archived(position, number, day):
                shown[number] = posts[number]
        among = sorted(shown)
        draws = [self.draw.one(_PIN, position, n, day // _PINNED_FOR) for n in range(min(self.feed.pins, len(shown)))]
        pins = list(dict.fromkeys(among[draw % len(among)] for draw in draws))
        first = 0 if sequence == FIRST_ITEM else -sequence if sequence < 0 else len(pins)
        for number, pin in list(enumerate(pins))[first:]:
            yield shown[pin]._replace(sequence=-1 - number)
        # Hidden posts have a rank, too, so that a cursor at one remains valid.
        ranked = sorted(posts, key=lambda number: self._rank(position, posts[number], day))
        after = ranked.index(sequence) if 0 <= sequence < FIRST_ITEM else -1
        for number in ranked[after + 1 :]:
            if number in shown and (self.feed.pins_twice or number not in pins):
                yield shown[number]

    def _error(self, position: int, sequence: int) -> int:
        chance, every = self.draw.one(_DATE, position, sequence), self.feed.misdated
        return 0 if not every or chance % every else 1 if chance // every % 2 else -1

    def _is_archived(self, position: int, sequence: int, day: int) -> bool:
        chance, every = self.draw.one(_ARCHIVE, position, sequence), self.feed.archived
        return bool(every) and chance % every == 0 and (day + chance // every) % _ARCHIVE_DAYS < 2

    def _rank(self, position: int, item: Item, day: int) -> tuple[int, int]:
        if self.feed.order == "newest_first":
            return -item.published, -item.sequence
        if self.feed.order == "by_last_edit":
            # Each day some posts are edited, and come first on that day.
            return -(self.draw.one(_PLACE, position, item.sequence, day) % 16 == 0), -item.sequence
        return self.draw.one(_PLACE, position, item.sequence), 0
