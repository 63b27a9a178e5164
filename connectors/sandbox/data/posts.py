"""The posts and stories of an account: each is computed from its number and the day."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from connectors.sandbox.data.identity import Draw, word
from connectors.sandbox.data.items import DAY, Child, Item, item_id
from connectors.sandbox.settings import SandboxSettings

_ACCOUNT, _POST, _COUNT, _STORY = 20, 21, 30, 31
_OLDEST = 10 * 365 * DAY
_LONGEST_GAP = 2 * DAY

# Percentages with a mean of 100, so that the catalogue has about `accounts x posts` posts, differently distributed.
_SIZES = (10, 30, 40, 50, 60, 70, 80, 90, 100, 100, 110, 120, 130, 150, 190, 270)
_DAYS_BETWEEN_POSTS = (1, 1, 1, 1, 2, 2, 3, 5)
_FOLLOWERS = (90, 240, 410, 860, 1_500, 3_200, 9_800, 41_000)

# A third of the posts are carousels.
_KINDS = [("IMAGE", "FEED")] * 4 + [("VIDEO", "REELS")] * 3 + [("VIDEO", "FEED")] + [("CAROUSEL_ALBUM", "FEED")] * 4
_CHILD_KINDS = ("IMAGE", "IMAGE", "IMAGE", "VIDEO")

# A day's stories have the sequences from day * 256 on, so that later ones always have higher sequences.
_MOST_A_DAY = 256


class _Account(NamedTuple):
    """How an account posts: posts on day 0, days between later ones and before the first of them, and followers."""

    at_first: int
    pace: int
    phase: int
    followers: int


@dataclass(frozen=True)
class Posts:
    """The surface ``posts``."""

    settings: SandboxSettings
    draw: Draw

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the posts shown on this day that are older than ``sequence``, newest first."""
        return (item for item, is_shown in self.every(position, day, sequence) if is_shown)

    def every(self, position: int, day: int, sequence: int) -> Iterator[tuple[Item, bool]]:
        """Yield all posts made until this day that are older than ``sequence``, each with whether it is shown."""
        account = self._account(position)
        total = account.at_first + (day + account.phase) // account.pace if self.settings.posts else 0
        for older in range(min(total, sequence) - 1, -1, -1):
            yield self._post(position, older, day, account)

    def _account(self, position: int) -> _Account:
        size, pace, phase, followers, *_ = self.draw.eight(_ACCOUNT, position)
        # Position 0 has exactly the mean number of posts.
        percent = 100 if position == 0 else _SIZES[size % len(_SIZES)]
        days = _DAYS_BETWEEN_POSTS[pace % len(_DAYS_BETWEEN_POSTS)]
        at_first = (self.settings.posts * percent + 50) // 100
        return _Account(at_first, days, phase % days, _FOLLOWERS[followers % len(_FOLLOWERS)])

    def _post(self, position: int, sequence: int, day: int, account: _Account) -> tuple[Item, bool]:
        fate, words, edit, kind, appeal, second, parts, flags = self.draw.eight(_POST, position, sequence)
        late, first_day = sequence - account.at_first, self.settings.first_day
        if late < 0:
            gap = min(_LONGEST_GAP, _OLDEST // account.at_first)
            born, published = 0, first_day + late * gap + second % gap
        else:
            born = (late + 1) * account.pace - account.phase
            published = first_day + (born - 1) * DAY + second % DAY
        is_edited = edit % 16 == 0 and day - born > edit // 16 % 20
        media_type, product_type = _KINDS[kind % len(_KINDS)]
        age = (first_day + day * DAY - published) // DAY
        fans = account.followers * (1 + appeal % 12 * (appeal >> 8) % 12) // 100
        likes = fans * (age + 1) // (age + 3)
        number, children = item_id(flags >> 8), list[Child]()
        if media_type == "CAROUSEL_ALBUM":
            children = [Child(number + n, _CHILD_KINDS[parts >> 2 * n & 3]) for n in range(1, 3 + parts % 4)]
        item = Item(
            sequence,
            number,
            media_type,
            product_type,
            _caption(words, word("edits", edit >> 16) if is_edited else ""),
            published,
            likes,
            likes // (12 + appeal % 40),
            flags % 25 != 0,
            tuple(children),
        )
        return item, _is_shown(fate, day - born)


def _is_shown(fate: int, since: int) -> bool:
    """Return whether a post is shown ``since`` days after its first. One in ten is deleted, some only temporarily."""
    rest, deathless = divmod(fate, 10)
    rest, dies = divmod(rest, 30)
    away, returns = rest % 2 + 1, rest // 2 % 3 == 0
    return bool(deathless) or since <= dies or (returns and since > dies + away)


def _caption(words: int, edit: str) -> str | None:
    """Return a post's caption, with the text that was added to it later; None for the few posts without one."""
    if words % 25 == 0:
        return edit or None
    opening, closing, tags = word("openings", words >> 8), word("closings", words >> 24), word("tags", words >> 40)
    stop = "." if closing and opening[-1].isalnum() else ""
    return "".join((opening, stop, closing, f"\n\n{tags}" if tags else "", f"\n{edit}" if edit else ""))


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
            words, kind, second, appeal, chance, *_ = self.draw.eight(_STORY, position, older)
            slot = DAY // many
            published = begins + (older - first) * slot + second % slot
            caption, media_type = word("story_captions", words) or None, "IMAGE" if kind % 3 else "VIDEO"
            yield Item(older, item_id(chance), media_type, "STORY", caption, published, likes=appeal % 60, comments=0)
