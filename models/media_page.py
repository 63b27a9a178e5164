"""Locating the list of items and the cursor in a media page, whose shape the API does not publish (API 4.2)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from models.mapping import to_keys
from models.partial_json import Unreadable, checked_members, elements, members
from models.text import one_line

MAX_CURSOR = 1024

# What a page without a cursor, or with an empty one, says about its list: that it ends, or nothing. By default, a page
# without a cursor ends its list only if it is the first one.
MissingCursor = Literal["ends", "ends_first_page", "fails"]
EmptyCursor = Literal["ends", "fails"]


@dataclass(frozen=True, slots=True)
class PagePaths:
    """How a media page is read: JSON Pointers to the list of items and to the cursor, and what ends a list.

    The pointers are tried in order before the automatic search.
    """

    items: tuple[str, ...] = ()
    next_cursor: tuple[str, ...] = ()
    missing_cursor: MissingCursor = "ends_first_page"
    empty_cursor: EmptyCursor = "fails"


# No pointers: automatic search alone.
DEFAULT_PATHS = PagePaths()


@dataclass(frozen=True, slots=True)
class CursorFault:
    """Why it is uncertain whether more pages follow a page: an error code, and a message of one line.

    `may_end`: the list ends if no page of it had a cursor.
    """

    code: Literal["cursor_missing", "cursor_empty", "cursor_invalid"]
    message: str
    may_end: bool = False


# Another field that may lead to the next page, with a value that is not empty, or a link to it.
_LEADS_ON = re.compile(
    rb'(?<!\\)"([^"\\]*(?:next|cursor|after|more|token|continu)[^"\\]*)"\s*+:\s*+(?!null|false|""|\{\s*\}|\[\s*\])'
    rb'|"rel"\s*:\s*"(next)"',
    re.IGNORECASE,
)


def _at(page: Mapping[str, bytes], paths: Sequence[str]) -> bytes | None:
    for path in paths:
        found = page
        *above, last = to_keys(path)
        for key in above:
            inner = found.get(key, b"")
            found = checked_members(inner) if inner.startswith(b"{") else {}
        if last in found:
            return found[last]
    return None


def _only_list(page: Mapping[str, bytes], *, may_be_empty: bool) -> bytes | None:
    lists = [(raw, elements(raw)) for raw in page.values() if raw.startswith(b"[")]
    full = [raw for raw, inner in lists if inner and all(one.startswith(b"{") for one in inner)]
    if len(full) == 1:
        return full[0]
    return lists[0][0] if may_be_empty and len(lists) == 1 and not lists[0][1] else None


def _no_cursor(around: bytes, paths: PagePaths) -> CursorFault | None:
    """Return what a page without a cursor means, by what is around its items; None if its list ends with it."""
    if paths.missing_cursor == "ends":
        return None
    if leading := _LEADS_ON.search(around):
        name = (leading[1] or leading[2]).decode(errors="replace")
        return CursorFault("cursor_missing", f"no next_cursor was found, but {one_line(name, 80)}")
    may_end = paths.missing_cursor == "ends_first_page"
    return CursorFault("cursor_missing", "the page has no next_cursor", may_end=may_end)


def _has_cursor(raw: bytes) -> bool:
    try:
        return raw.startswith(b"{") and "next_cursor" in members(raw)
    except Unreadable:
        return False


def locate_items(body: bytes, paths: PagePaths) -> tuple[bytes, str | CursorFault | None, frozenset[str]]:
    """Return the list of items of a page, its cursor, and the page's other keys.

    The list is the first found of: the paths of `paths`, `items`, the only top-level list of objects, and, if there is
    a cursor, the only top-level list if it is empty. The cursor is the first found of: the paths of `paths`,
    `next_cursor`, the only `next_cursor` in an object at the top level. It is None if the list ends with this page, and
    a fault if that is uncertain. Raises Unreadable.
    """
    # JSON does not define which of two duplicate keys applies, so that the page may have more items than are found.
    page = checked_members(body)
    nested = [raw for raw in page.values() if _has_cursor(raw)]
    cursor = _at(page, (*paths.next_cursor, "/next_cursor"))
    if cursor is None and len(nested) == 1:
        cursor = checked_members(nested[0])["next_cursor"]
    items = _at(page, (*paths.items, "/items"))
    if items is None:
        # Without a cursor, an empty list may be anything, such as a list of errors.
        items = _only_list(page, may_be_empty=cursor is not None)
    if items is None:
        raise Unreadable("no list of items found")
    others = frozenset(page) - {"items", "next_cursor"}
    if cursor is not None:
        ends = cursor == b'""' and paths.empty_cursor == "ends"
        return items, None if ends else read_cursor(cursor), others
    if nested:
        return items, CursorFault("cursor_invalid", "several objects of the page have a next_cursor"), others
    return items, _no_cursor(body.replace(items, b""), paths), others


def read_cursor(raw: bytes) -> str | CursorFault | None:
    """Return the value of a page's `next_cursor`, or why it is no cursor."""
    try:
        cursor = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Its bytes are not UTF-8, or it has half of a character.
        return CursorFault("cursor_invalid", "next_cursor is not UTF-8")
    if cursor is None:
        return None
    if cursor == "":
        return CursorFault("cursor_empty", "next_cursor is an empty text")
    if not isinstance(cursor, str):
        return CursorFault("cursor_invalid", "next_cursor is neither text nor null")
    if len(cursor) > MAX_CURSOR:
        return CursorFault("cursor_invalid", f"next_cursor has more than {MAX_CURSOR:,} characters")
    return cursor
