"""Ids and times of the items of a page, read when it lands."""

import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from pydantic_core import from_json

from models.incremental import Post
from models.mapping import Mapping as MediaMapping
from models.mapping import Reading
from models.partial_json import elements, members
from models.pointer import to_keys
from models.schema.any_json import parse
from models.schema.json_types import number_text
from models.times import time_of


def _value(item: Any, keys: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    for key in keys:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def id_in(item: object, paths: Sequence[Sequence[str]]) -> str | None:
    """Return the first id of an item at these paths of keys, as text; None if there is none, or it is no object.

    An id is a text, a number or a boolean. Texts that begin like an object or a list are not ids, because a merge finds
    objects and lists as text where a path also has other values.
    """
    for keys in paths:
        value = _value(item, keys)
        if isinstance(value, float):
            value = number_text(value)
        elif isinstance(value, (bool, int)):
            value = json.dumps(value)
        if isinstance(value, str) and value and not value.startswith(("{", "[")):
            return value
    return None


def _items(body: str) -> list[Any]:
    """Return the items of a media page; an item that is nested too deep is its text."""
    try:
        items: list[Any] = from_json(body)["items"]
    except ValueError:
        # This parser limits the digits of an integer, and the depth.
        items = list(map(_item, elements(members(body.encode())["items"])))
    return items


def _item(raw: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return parse(raw.decode())
    except RecursionError:
        return raw.decode()


def identities(body: str, posts: Sequence[Post]) -> list[str]:
    """Return what identifies the posts of a media page: their ids, or the JSON text of one that has no id."""
    ids = [post.media_id for post in posts if post.media_id is not None]
    if len(ids) == len(posts):
        return ids
    texts = elements(members(body.encode())["items"])
    return [post.media_id or text.decode() for post, text in zip(posts, texts, strict=True)]


def post_reader(mapping: MediaMapping) -> Callable[[str], Sequence[Post]]:
    """Return a function that reads the posts of a page's text with this mapping."""
    ids = [to_keys(path) for path in mapping.media_id]
    times = [
        to_keys(path)
        for column in mapping.columns
        if column.column == "published_at" and column.reading is Reading.TIMESTAMP
        for path in column.paths
    ]
    top = list(dict.fromkeys(keys[0] for keys in (*ids, *times)))
    names = {f"field_{place}": key for place, key in enumerate(top)}
    # Only these keys are decoded, in a fifth of the time needed for a whole item.
    item = msgspec.defstruct("Item", [(name, Any, None) for name in names], rename=names)
    page = msgspec.defstruct("Page", [("items", list[item])])  # type: ignore[valid-type]
    decoder = msgspec.json.Decoder(page)
    id_of, time_at = (attrgetter(f"field_{top.index(keys[0])}") for keys in (ids[0], (times or ids)[0]))
    is_plain = bool(times) and len(ids[0]) == len(times[0]) == 1

    def post(item: object) -> Post:
        found = (time_of(_value(item, keys)) for keys in times)
        return Post(id_in(item, ids), next((at for at in found if at is not None), None))

    def read_plain(listed: Sequence[Any]) -> Sequence[Post] | None:
        """Read items whose id is a text and whose time can be read, both at the first path; None for any others."""
        media_ids, found = list(map(id_of, listed)), list(map(time_of, map(time_at, listed)))
        if not all(media_ids) or {*map(type, media_ids)} != {str} or None in found:
            return None
        return list(map(Post, media_ids, found))

    def read(body: str) -> Sequence[Post]:
        try:
            listed = getattr(decoder.decode(body), "items")  # noqa: B009 - a field of a class made above
        except (msgspec.DecodeError, RecursionError):
            # An item is not an object or is nested too deep, or a number exceeds the range of a double.
            return list(map(post, _items(body)))
        if is_plain and (plain := read_plain(listed)) is not None:
            return plain
        return [post(dict(zip(top, msgspec.structs.astuple(one), strict=True))) for one in listed]

    return read
