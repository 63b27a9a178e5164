"""What the API may list (API 2): items other than the Graph API's, and posts that are not newest first.

A client accepts all of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from connectors.sandbox.contract import POSTS
from connectors.sandbox.data.catalogue import FIRST_ITEM, Account, Catalogue, owner
from connectors.sandbox.data.items import DAY, Document, Item, graph, iso
from connectors.sandbox.data.posts import Posts
from connectors.sandbox.settings import SandboxSettings

_CITIES = ("Lisboa", "Karaköy", "Nørrebro")

ORDERS = ("newest_first", "random", "by_last_edit")
_PIN, _ARCHIVE, _DATE, _PLACE = 40, 41, 42, 43
# Days: how long a pin stays, the period of which an archived post is hidden for two days, the error of wrong times.
_PINNED_FOR, _ARCHIVE_DAYS, _CLAIMED = 3, 5, 40

# Fields that are mapped, counted or neither, one of them with a key that no path has; hostile ones are in tests/harness
# and tests/security.
_FIELDS = (
    "like_count", "comments_count", "caption", "timestamp", "score", "location", "tags", "metrics", "mediaType",
    "nul\x00byte",
)  # fmt: skip

# Values of every type, also what becomes another type beside the one before.
_VALUES: tuple[Callable[[Item], object], ...] = (
    lambda item: item.id % 100,
    lambda item: [{"tag": "slow", "productName": f'The "big" tray, {item.id % 3}'}][: item.id % 3],
    lambda item: item.id % 100 + 0.5,
    lambda item: _CITIES[item.id % 3],
    lambda _: None,
    lambda item: f"{iso(item.published + 60)}Z",
    lambda item: {"likes": item.likes, "reach": item.likes * 7, "geo": {"lat": item.id % 90 + 0.125}},
    lambda item: str(item.likes),
    lambda item: ["slow", 1, {"three": 3}, None][: item.id % 5],
    lambda item: 2**63 + item.id,
    lambda _: {},
    lambda item: item.published * 1000,
    lambda item: item.id % 2 == 0,
)


def drift(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item whose fields change their types within a scan, every two posts of an account, and with the days.

    So the types of existing items that changed differ from those of the stored ones.
    """
    document, stage = graph(item, username, owner, day), item.sequence // 2 + day * (item.sequence % 5 == 0)
    for place, name in enumerate(_FIELDS if stage else ()):
        document[name] = _VALUES[stage * (place + 1) % len(_VALUES)](item)
    if day % 2 and item.children:
        # Neither their number nor one of them changes, only their order.
        document["children"]["data"].reverse()
    return document


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How posts are listed.

    `pins` are listed first, change every third day and, with `pins_twice`, are listed at their normal position too. Of
    `archived` posts, one is hidden for two of five days; of `misdated` ones, every other one has a time 40 days too
    early, the others too late; 0: none. `weekly`: all posts of a week have the same time.
    """

    order: str = "newest_first"
    pins: int = 0
    pins_twice: bool = False
    archived: int = 0
    misdated: int = 0
    weekly: bool = False


PLAIN_FEED = FeedSettings()


class OddCatalogue(Catalogue):
    """Items that may drift, and posts in any order."""

    def __init__(self, settings: SandboxSettings, feed: FeedSettings, *, drifts: bool) -> None:
        super().__init__(settings)
        self._feed, self._shape = feed, drift if drifts else graph
        self._posts = Posts(settings, self.draw)

    def render(self, item: Item, account: Account, day: int) -> Document:
        """Return an item."""
        return self._shape(item, account.ig_username, owner(account), day)

    def items(
        self, account: Account, surface: str, day: int, before: int = FIRST_ITEM
    ) -> Iterator[tuple[int, Document]]:
        """Yield the anchor and the record of the items after an anchor: that of arranged posts is their place."""
        if surface != POSTS or self._feed == PLAIN_FEED:
            yield from super().items(account, surface, day, before)
            return
        first = 0 if before == FIRST_ITEM else before + 1
        for place, item in enumerate(self._arrange(account.position, day)[first:], first):
            yield place, self.render(item, account, day)

    def _arrange(self, position: int, day: int) -> list[Item]:
        """Return the posts of a day in the order in which the feed lists them."""
        feed, shown = self._feed, dict[int, Item]()
        for item, is_shown in self._posts.every(position, day, FIRST_ITEM):
            number = item.sequence
            archive, date = (self.draw.one(kind, position, number) for kind in (_ARCHIVE, _DATE))
            is_archived = _is_one(archive, feed.archived) and (day + archive // feed.archived) % _ARCHIVE_DAYS < 2
            error = (1 if date // feed.misdated % 2 else -1) if _is_one(date, feed.misdated) else 0
            if is_shown and not is_archived:
                published = item.published + error * _CLAIMED * DAY
                shown[number] = item._replace(published=published - published % (7 * DAY if feed.weekly else 1))
        ranked = sorted(shown, key=lambda number: self._rank(position, shown[number], day))
        among = sorted(shown)
        draws = [self.draw.one(_PIN, position, n, day // _PINNED_FOR) for n in range(min(feed.pins, len(shown)))]
        pins = list(dict.fromkeys(among[draw % len(among)] for draw in draws))
        others = [number for number in ranked if feed.pins_twice or number not in pins]
        return [shown[number] for number in (*pins, *others)]

    def _rank(self, position: int, item: Item, day: int) -> tuple[int, int]:
        if self._feed.order == "newest_first":
            return -item.published, -item.sequence
        if self._feed.order == "by_last_edit":
            # Each day some posts are edited, and come first on that day.
            return -(self.draw.one(_PLACE, position, item.sequence, day) % 16 == 0), -item.sequence
        return self.draw.one(_PLACE, position, item.sequence), 0


def _is_one(chance: int, every: int) -> bool:
    """Return whether a chance is that of one in so many; 0: none."""
    return bool(every) and chance % every == 0
