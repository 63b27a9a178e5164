"""Locating the list of items and the cursor in a media page, whose shape the API does not publish (API 4.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from models.schema.pointer import to_keys

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])

_Object = Mapping[str, msgspec.Raw]


@dataclass(frozen=True, slots=True)
class PagePaths:
    """JSON Pointers to the list of items and to the cursor, tried in order before the automatic search."""

    items: tuple[str, ...] = ()
    next_cursor: tuple[str, ...] = ()


# No pointers: automatic search alone.
DEFAULT_PATHS = PagePaths()


class NotFound(ValueError):  # noqa: N818 - named after the condition
    """The list of items or the cursor is not found in a body. The message is one line and quotes nothing from it."""


def _begins(raw: msgspec.Raw, mark: bytes) -> bool:
    return memoryview(raw)[:1] == mark


def _at(page: _Object, paths: Sequence[str]) -> msgspec.Raw | None:
    for path in paths:
        found: _Object | None = page
        *above, last = to_keys(path)
        for key in above:
            inner = found.get(key) if found is not None else None
            found = _object.decode(inner) if inner is not None and _begins(inner, b"{") else None
        if found is not None and last in found:
            return found[last]
    return None


def _only_list(page: _Object) -> msgspec.Raw | None:
    lists = [raw for raw in page.values() if _begins(raw, b"[")]
    full = [raw for raw in lists if (elements := _list.decode(raw)) and all(_begins(one, b"{") for one in elements)]
    if len(full) == 1:
        return full[0]
    return lists[0] if len(lists) == 1 and not _list.decode(lists[0]) else None


def _only_cursor(page: _Object) -> msgspec.Raw | None:
    found = [
        inner["next_cursor"]
        for raw in page.values()
        if _begins(raw, b"{") and "next_cursor" in (inner := _object.decode(raw))
    ]
    return found[0] if len(found) == 1 else None


def rewritten(body: bytes, paths: PagePaths) -> tuple[bytes, frozenset[str]]:
    """Return the page as an object with only `items` and `next_cursor`, and the names of its other top-level keys.

    The list is the first found of: the paths of `paths`, `items`, the only top-level list of objects, the only
    top-level list if it is empty. The cursor is the first found of: the paths of `paths`, `next_cursor`, the only
    `next_cursor` in an object at the top level. The bytes of both are unchanged. Raises NotFound.
    """
    try:
        page = _object.decode(body)
        items, cursor = _at(page, (*paths.items, "/items")), _at(page, (*paths.next_cursor, "/next_cursor"))
        items = _only_list(page) if items is None else items
        cursor = _only_cursor(page) if cursor is None else cursor
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = "it is not a JSON object"
        raise NotFound(message) from error
    missing = [name for name, raw in (("list of items", items), ("next_cursor", cursor)) if raw is None]
    if items is None or cursor is None:
        message = f"no {' and no '.join(missing)} found"
        raise NotFound(message)
    own = b'{"items":' + bytes(items) + b',"next_cursor":' + bytes(cursor) + b"}"
    return own, frozenset(page) - {"items", "next_cursor"}
