"""The posts and stories of an account: each is computed from its number and the day."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from connectors.sandbox.data.identity import SEQUENCES, Draw, item_id, item_number
from connectors.sandbox.data.items import DAY, Child, Item
from connectors.sandbox.data.words import post_caption, story_caption
from connectors.sandbox.settings import SandboxSettings

_ACCOUNT, _POST, _COUNT, _STORY = 20, 21, 30, 31
_POSTS, _STORIES = 0, 1
_OLDEST = 10 * 365 * DAY
_LONGEST_GAP = 2 * DAY

# Percentages with a mean of 100, so that the catalogue has about `accounts x posts` posts, differently distributed.
_SIZES = (10, 30, 40, 50, 60, 70, 80, 90, 100, 100, 110, 120, 130, 150, 190, 270)
_POSTS_IN_TEN_DAYS = (2, 3, 4, 5, 7, 10, 14, 20)
_FOLLOWERS = (90, 240, 410, 860, 1_500, 3_200, 9_800, 41_000)

# A third of the posts are carousels.
_KINDS = (
    *((("IMAGE", "FEED"),) * 4),
    *((("VIDEO", "REELS"),) * 3),
    ("VIDEO", "FEED"),
    *((("CAROUSEL_ALBUM", "FEED"),) * 4),
)
_CHILD_KINDS = ("IMAGE", "IMAGE", "IMAGE", "VIDEO")

# A day's stories have the sequences from day * 256 on, so that later ones always have higher sequences.
_MOST_A_DAY = 256


def _is_shown(fate: int, since: int) -> bool:
    """Return whether a post is shown ``since`` days after its first. One in ten is deleted, some only temporarily."""
    rest, deathless = divmod(fate, 10)
    rest, dies = divmod(rest, 30)
    away, returns = rest % 2 + 1, rest // 2 % 3 == 0
    return bool(deathless) or since <= dies or (returns and since > dies + away)


class Timeline(NamedTuple):
    """The parameters of an account's posts."""

    first_day: int
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
        return 0 if late < 0 else -((self.phase - 10 * (late + 1)) // self.per_ten_days)

    def published(self, sequence: int, day: int, chance: int) -> int:
        """Return when a post of this day was published, in epoch seconds; it increases with the sequence."""
        if day == 0:
            return self.first_day - (self.at_first - sequence) * self.gap + chance % self.gap
        before = self.total(day - 1)
        slot = DAY // (self.total(day) - before)
        return self.first_day + (day - 1) * DAY + (sequence - before) * slot + chance % slot


@dataclass(frozen=True)
class Posts:
    """The surface ``posts``."""

    settings: SandboxSettings
    draw: Draw

    def timeline(self, position: int) -> Timeline:
        """Return the timeline of the account at a position. Position 0 has exactly the mean number of posts."""
        mean = self.settings.posts
        size, rate, phase, followers, *_ = self.draw.eight(_ACCOUNT, position)
        at_first = (mean * (100 if position == 0 else _SIZES[size % len(_SIZES)]) + 50) // 100
        return Timeline(
            self.settings.first_day,
            at_first,
            per_ten_days=_POSTS_IN_TEN_DAYS[rate % len(_POSTS_IN_TEN_DAYS)] if mean else 0,
            phase=phase % 10,
            gap=min(_LONGEST_GAP, _OLDEST // max(at_first, 1)),
            followers=_FOLLOWERS[followers % len(_FOLLOWERS)],
        )

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the posts shown on this day that are older than ``sequence``, newest first."""
        return (item for item, is_shown in self.every(position, day, sequence) if is_shown)

    def every(self, position: int, day: int, sequence: int) -> Iterator[tuple[Item, bool]]:
        """Yield all posts made until this day that are older than ``sequence``, each with whether it is shown."""
        timeline = self.timeline(position)
        for older in range(min(timeline.total(day), sequence) - 1, -1, -1):
            yield self._post(position, older, day, timeline)

    def _post(self, position: int, sequence: int, day: int, timeline: Timeline) -> tuple[Item, bool]:
        fate, words, edit, kind, appeal, second, parts, flags = self.draw.eight(_POST, position, sequence)
        number = item_number(position, _POSTS, sequence)
        born = timeline.day_of(sequence)
        published = timeline.published(sequence, born, second)
        is_edited = edit % 16 == 0 and day - born > edit // 16 % 20
        media_type, product_type = _KINDS[kind % len(_KINDS)]
        age = (timeline.first_day + day * DAY - published) // DAY
        fans = timeline.followers * (1 + appeal % 12 * (appeal >> 8) % 12) // 100
        likes = fans * (age + 1) // (age + 3)
        children: tuple[Child, ...] = ()
        if media_type == "CAROUSEL_ALBUM":
            numbers = range(number + 1, number + 3 + parts % 4)
            children = tuple([Child(item_id(n), _CHILD_KINDS[parts >> 2 * (n - number) & 3]) for n in numbers])
        item = Item(
            sequence,
            item_id(number),
            media_type,
            product_type,
            post_caption(words, edit >> 16 if is_edited else None),
            published,
            likes,
            likes // (12 + appeal % 40),
            flags % 25 != 0,
            children,
        )
        return item, _is_shown(fate, day - born)


@dataclass(frozen=True)
class Stories:
    """The surface ``stories``: each exists for 24 hours, so every day has different ones."""

    settings: SandboxSettings
    draw: Draw

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the stories of this day that are older than ``sequence``, newest first."""
        many = self.draw.one(_COUNT, position, day) % (2 * self.settings.stories + 1)
        first = day * _MOST_A_DAY
        begins = self.settings.first_day + (day - 1) * DAY
        for older in range(min(first + many, sequence) - 1, first - 1, -1):
            words, kind, second, appeal, *_ = self.draw.eight(_STORY, position, older)
            slot = DAY // many
            yield Item(
                older,
                item_id(item_number(position, _STORIES, older)),
                "VIDEO" if kind % 3 == 0 else "IMAGE",
                "STORY",
                story_caption(words),
                begins + (older - first) * slot + second % slot,
                likes=appeal % 60,
                comments=0,
            )
