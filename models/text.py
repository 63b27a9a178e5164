"""Text from outside, for messages."""

import difflib
from collections.abc import Iterable


def one_line(text: str, limit: int = 200) -> str:
    """Return external text as one printable line of at most `limit` characters."""
    head = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in head).split())
    return line if len(line) <= limit and len(head) == len(text) else line[: limit - 1] + "…"


def nearest(typed: str, known: Iterable[str]) -> str:
    """Return the question whether the most similar of the known names is meant; empty if none is similar."""
    near = difflib.get_close_matches(typed, known, n=1)
    return f"Did you mean {one_line(near[0])}? " if near else ""
