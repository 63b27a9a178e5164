"""Captions, composed of pieces that are escaped for JSON only once."""

from __future__ import annotations

import json

from connectors.sandbox.data.words import CLOSINGS, EDITS, OPENINGS, ROUGH, STORY_CAPTIONS, TAGS


def _escaped(pieces: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(json.dumps(piece, ensure_ascii=False)[1:-1] for piece in pieces)


def _before_more(opening: str) -> str:
    return f"{opening}." if opening[-1].isalnum() else opening


_OPENINGS = _escaped(OPENINGS)
_LONGER_OPENINGS = _escaped(tuple(_before_more(opening) for opening in OPENINGS))
_ROUGH = _escaped(ROUGH)
_CLOSINGS = _escaped(tuple(c if not c or c.startswith("\n") else f" {c}" for c in CLOSINGS))
_TAGS = _escaped(tuple(f"\n\n{tags}" if tags else "" for tags in TAGS))
_EDITS = _escaped(tuple(f"\n{edit}" for edit in EDITS))
_STORY_CAPTIONS = _escaped(STORY_CAPTIONS)
_SILENT_IN = 25
_ROUGH_IN = 200


def post_caption(words: int, edit: int | None) -> str | None:
    """Return a post's caption, escaped for a JSON string but without quotes; None for the few posts without one.

    ``words`` selects the caption, ``edit`` the text that was added to it later (None: nothing was added).
    """
    if words % _SILENT_IN == 0:
        return None if edit is None else _EDITS[edit % len(_EDITS)][2:]
    rough = words % _ROUGH_IN == 1
    closing = _CLOSINGS[(words >> 24) % len(_CLOSINGS)]
    openings = _ROUGH if rough else _LONGER_OPENINGS if closing else _OPENINGS
    opening = openings[(words >> 8) % len(openings)]
    tags = _TAGS[(words >> 40) % len(_TAGS)]
    more = "" if edit is None else _EDITS[edit % len(_EDITS)]
    return f"{opening}{closing}{tags}{more}"


def story_caption(words: int) -> str | None:
    """Return a story's caption, escaped for a JSON string but without quotes; None for stories without one."""
    return _STORY_CAPTIONS[words % len(_STORY_CAPTIONS)] or None
