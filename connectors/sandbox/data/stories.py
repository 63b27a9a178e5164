"""The stories of an account: each exists for 24 hours, so every day has different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.sandbox.data.calendar import DAY, instant
from connectors.sandbox.data.captions import story_caption
from connectors.sandbox.data.identity import shortcode
from connectors.sandbox.data.posts import Item

if TYPE_CHECKING:
    from collections.abc import Iterator

    from connectors.sandbox.data.draw import Draw
    from connectors.sandbox.data.identity import Identity

_COUNT, _STORY = 30, 31
_SURFACE = 1
# A day's stories have the sequences from day * 256 on, so that later ones always have higher sequences.
_MOST_A_DAY = 256


class Stories:
    """The surface ``stories``."""

    def __init__(self, mean: int, draw: Draw, identity: Identity) -> None:
        self._mean = mean
        self._draw = draw
        self._identity = identity

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the stories of this day that are older than ``sequence``, newest first."""
        many = self._draw.one(_COUNT, position, day) % (2 * self._mean + 1)
        first = day * _MOST_A_DAY
        for older in range(min(first + many, sequence) - 1, first - 1, -1):
            yield self._item(position, older, day, DAY // many)

    def _item(self, position: int, sequence: int, day: int, slot: int) -> Item:
        words, kind, second, appeal, *_ = self._draw.eight(_STORY, position, sequence)
        item_id = self._identity.item_id(self._identity.item_number(position, _SURFACE, sequence))
        published = instant(day - 1) + sequence % _MOST_A_DAY * slot + second % slot
        return Item(
            sequence=sequence,
            id=item_id,
            shortcode=shortcode(item_id),
            media_type="VIDEO" if kind % 3 == 0 else "IMAGE",
            product_type="STORY",
            caption=story_caption(words),
            published=published,
            likes=appeal % 60,
            comments=0,
            saves=0,
            reach=appeal % 60 * 9,
            comments_open=True,
            children=(),
        )
