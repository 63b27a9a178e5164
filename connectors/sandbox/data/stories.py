"""The stories of an account: each exists for 24 hours, so every day has different ones."""

from collections.abc import Iterator

from connectors.sandbox.data.draw import Draw
from connectors.sandbox.data.identity import Identity
from connectors.sandbox.data.items import DAY, Item
from connectors.sandbox.data.words import story_caption
from connectors.sandbox.settings import SandboxSettings

_COUNT, _STORY = 30, 31
_SURFACE = 1
# A day's stories have the sequences from day * 256 on, so that later ones always have higher sequences.
_MOST_A_DAY = 256


class Stories:
    """The surface ``stories``."""

    def __init__(self, settings: SandboxSettings, draw: Draw, identity: Identity) -> None:
        self._settings = settings
        self._draw = draw
        self._identity = identity

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the stories of this day that are older than ``sequence``, newest first."""
        many = self._draw.one(_COUNT, position, day) % (2 * self._settings.stories + 1)
        first = day * _MOST_A_DAY
        begins = self._settings.first_day + (day - 1) * DAY
        for older in range(min(first + many, sequence) - 1, first - 1, -1):
            words, kind, second, appeal, *_ = self._draw.eight(_STORY, position, older)
            slot = DAY // many
            yield Item(
                older,
                self._identity.item_id(self._identity.item_number(position, _SURFACE, older)),
                "VIDEO" if kind % 3 == 0 else "IMAGE",
                "STORY",
                story_caption(words),
                begins + (older - first) * slot + second % slot,
                likes=appeal % 60,
                comments=0,
            )
