"""The posts of an account: each is computed from its number and the day."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from connectors.sandbox.data.calendar import DAY, FIRST_DAY, instant
from connectors.sandbox.data.captions import post_caption
from connectors.sandbox.data.identity import SEQUENCES, shortcode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.sandbox.data.draw import Draw
    from connectors.sandbox.data.identity import Identity

_ACCOUNT, _POST = 20, 21
_SURFACE = 0
_OLDEST = 10 * 365 * DAY
_LONGEST_GAP = 2 * DAY
START = 1 << 62

# Percentages with a mean of 100, so that the catalogue has about `accounts x posts` posts, differently distributed.
_SIZES = (10, 30, 40, 50, 60, 70, 80, 90, 100, 100, 110, 120, 130, 150, 190, 270)
_POSTS_IN_TEN_DAYS = (2, 3, 4, 5, 7, 10, 14, 20)
_FOLLOWERS = (90, 240, 410, 860, 1_500, 3_200, 9_800, 41_000)

_KINDS = (
    *((("IMAGE", "FEED"),) * 8),
    *((("VIDEO", "REELS"),) * 4),
    ("VIDEO", "FEED"),
    *((("CAROUSEL_ALBUM", "FEED"),) * 3),
)
_CHILD_KINDS = ("IMAGE", "IMAGE", "IMAGE", "VIDEO")


def _shown(fate: int, since: int) -> bool:
    """Return whether a post is shown ``since`` days after its first. One in ten is deleted, some only temporarily."""
    rest, deathless = divmod(fate, 10)
    rest, dies = divmod(rest, 30)
    away, returns = rest % 2 + 1, rest // 2 % 3 == 0
    return bool(deathless) or since <= dies or (returns and since > dies + away)


class Child(NamedTuple):
    """One image or video of a carousel."""

    id: int
    media_type: str


class Item(NamedTuple):
    """A post or a story on one day. A tuple for speed, because each page needs fifty.

    ``caption`` is escaped for a JSON string, without quotes, or None. ``published`` is in epoch seconds. ``sequence``
    increases with time within one account and surface.
    """

    sequence: int
    id: int
    shortcode: str
    media_type: str
    product_type: str
    caption: str | None
    published: int
    likes: int
    comments: int
    saves: int
    reach: int
    comments_open: bool
    children: tuple[Child, ...]


class Timeline(NamedTuple):
    """The parameters of an account's posts."""

    at_first: int
    per_ten_days: int
    phase: int
    gap: int
    followers: int

    def total(self, day: int) -> int:
        """Return the number of posts ever made until this day."""
        return min(self.at_first + (day * self.per_ten_days + self.phase) // 10, SEQUENCES)

    def day_of(self, sequence: int) -> int:
        """Return the first day of a post; 0 for all posts that exist at the beginning."""
        late = sequence - self.at_first
        if late < 0:
            return 0
        return -((self.phase - 10 * (late + 1)) // self.per_ten_days)

    def published(self, sequence: int, chance: int) -> int:
        """Return when a post was published, in epoch seconds; it increases with the sequence."""
        day = self.day_of(sequence)
        if day == 0:
            return FIRST_DAY - (self.at_first - sequence) * self.gap + chance % self.gap
        before = self.total(day - 1)
        slot = DAY // (self.total(day) - before)
        return instant(day - 1) + (sequence - before) * slot + chance % slot


class Posts:
    """The surface ``posts``."""

    def __init__(self, mean: int, draw: Draw, identity: Identity) -> None:
        self._mean = mean
        self._draw = draw
        self._identity = identity

    def timeline(self, position: int) -> Timeline:
        """Return the timeline of the account at a position. Position 0 has exactly the mean number of posts."""
        size, rate, phase, followers, *_ = self._draw.eight(_ACCOUNT, position)
        percent = 100 if position == 0 else _SIZES[size % len(_SIZES)]
        at_first = (self._mean * percent + 50) // 100
        return Timeline(
            at_first=at_first,
            per_ten_days=_POSTS_IN_TEN_DAYS[rate % len(_POSTS_IN_TEN_DAYS)] if self._mean else 0,
            phase=phase % 10,
            gap=min(_LONGEST_GAP, _OLDEST // max(at_first, 1)),
            followers=_FOLLOWERS[followers % len(_FOLLOWERS)],
        )

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the posts shown on this day that are older than ``sequence``, newest first."""
        timeline = self.timeline(position)
        eight = self._draw.eight
        for older in range(min(timeline.total(day), sequence) - 1, -1, -1):
            chances = eight(_POST, position, older)
            if _shown(chances[0], day - timeline.day_of(older)):
                yield self._item(position, older, day, timeline, chances)

    def ever(self, position: int, day: int) -> Iterator[Item]:
        """Yield all posts made until this day, including deleted ones, newest first."""
        timeline = self.timeline(position)
        for sequence in range(timeline.total(day) - 1, -1, -1):
            yield self._item(position, sequence, day, timeline, self._draw.eight(_POST, position, sequence))

    def _item(self, position: int, sequence: int, day: int, timeline: Timeline, chances: tuple[int, ...]) -> Item:
        _, words, edit, kind, appeal, second, parts, flags = chances
        number = self._identity.item_number(position, _SURFACE, sequence)
        item_id = self._identity.item_id(number)
        published = timeline.published(sequence, second)
        edited = edit % 16 == 0 and day - timeline.day_of(sequence) > edit // 16 % 20
        media_type, product_type = _KINDS[kind % len(_KINDS)]
        age = (instant(day) - published) // DAY
        fans = timeline.followers * (1 + appeal % 12 * (appeal >> 8) % 12) // 100
        likes = fans * (age + 1) // (age + 3)
        children: tuple[Child, ...] = ()
        if media_type == "CAROUSEL_ALBUM":
            children = tuple(
                Child(self._identity.item_id(number + n), _CHILD_KINDS[parts >> 2 * n & 3])
                for n in range(1, 3 + parts % 4)
            )
        return Item(
            sequence=sequence,
            id=item_id,
            shortcode=shortcode(item_id),
            media_type=media_type,
            product_type=product_type,
            caption=post_caption(words, edit >> 16 if edited else None),
            published=published,
            likes=likes,
            comments=likes // (12 + appeal % 40),
            saves=likes // 15,
            reach=likes * 7 + age % 5,
            comments_open=flags % 25 != 0,
            children=children,
        )
