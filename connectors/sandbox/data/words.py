"""Usernames and captions, composed of the words in `words.toml`; they do not depend on the seed."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files

_WORDS: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
_SILENT_IN = 25


def _pick(words: str, number: int) -> str:
    return _WORDS[words][number % len(_WORDS[words])]


def post_caption(words: int, edit: int | None) -> str | None:
    """Return a post's caption; None for the few posts without one.

    ``words`` selects the caption, ``edit`` the text that was added to it later (None: nothing was added).
    """
    more = "" if edit is None else f"\n{_pick('edits', edit)}"
    if words % _SILENT_IN == 0:
        return more[1:] or None
    opening, closing, tags = _pick("openings", words >> 8), _pick("closings", words >> 24), _pick("tags", words >> 40)
    tags = f"\n\n{tags}" if tags else ""
    stop = "." if closing and opening[-1].isalnum() else ""
    return f"{opening}{stop}{closing}{tags}{more}"


def story_caption(words: int) -> str | None:
    """Return a story's caption; None for stories without one."""
    return _pick("story_captions", words) or None


def username(position: int) -> str:
    """Return a unique username of 1 to 30 characters for a position."""
    first, second = _WORDS["first"], _WORDS["second"]
    pairs = len(first) * len(second)
    lap, n = divmod(position, pairs)
    # The step is coprime to the number of pairs, so each pair is used once per lap.
    one, other = divmod((n * 1847 + 611) % pairs, len(second))
    return f"{first[one]}.{second[other]}{lap + 1 if lap else ''}"
