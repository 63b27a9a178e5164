"""Ids and times of the items of a page, read when it lands."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from pydantic_core import from_json, to_json

from models.incremental import Post
from models.schema.json_types import number_text
from models.schema.mapping import Mapping as MediaMapping
from models.schema.mapping import Reading
from models.schema.pointer import to_keys
from models.schema.times import time_of


def id_in(item: object, paths: Sequence[Sequence[str]]) -> str | None:
    """Return the first id of an item at these paths of keys, as text; None if there is none, or it is no object.

    An id is a text, a number or a boolean. Texts that begin like an object or a list are not ids, because a merge finds
    objects and lists as text where a path also has other values.
    """
    for keys in paths:
        value: Any = item
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, float):
            value = number_text(value)
        elif isinstance(value, (bool, int)):
            value = json.dumps(value)
        if isinstance(value, str) and value and not value.startswith(("{", "[")):
            return value
    return None


def ids_of(body: str, mapping: MediaMapping) -> Iterator[str]:
    """Yield the id of each item of a media page by the mapping, or the item's JSON text if it has no id."""
    paths = [to_keys(path) for path in mapping.media_id]
    for item in from_json(body)["items"]:
        yield id_in(item, paths) or to_json(item, inf_nan_mode="strings").decode()


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
    # Nearly every item has its id at the first path.
    (first_id, *deeper), *_ = ids
    id_at = None if deeper else top.index(first_id)
    at = [(top.index(first), rest) for first, *rest in times]

    def post(values: Sequence[Any]) -> Post:
        media_id = None if id_at is None else values[id_at]
        if not media_id or type(media_id) is not str:
            media_id = id_in(dict(zip(top, values, strict=True)), ids)
        return Post(media_id, _time_in(values, at))

    id_of, first_time_of = (attrgetter(f"field_{place}") for place in (id_at or 0, at[0][0] if at else 0))

    def read_plain(listed: Sequence[Any]) -> Sequence[Post] | None:
        """Read items whose id is a text and whose time can be read, both at the first path; None for any others."""
        media_ids, times = list(map(id_of, listed)), list(map(time_of, map(first_time_of, listed)))
        if not all(media_ids) or {*map(type, media_ids)} != {str} or None in times:
            return None
        return list(map(Post, media_ids, times))

    is_plain = id_at is not None and bool(at) and not at[0][1]

    def read(body: str) -> Sequence[Post]:
        try:
            listed = getattr(decoder.decode(body), "items")  # noqa: B009 - a field of a class made above
            if is_plain and (plain := read_plain(listed)) is not None:
                return plain
            found = [msgspec.structs.astuple(one) for one in listed]
        except msgspec.DecodeError:
            # An item is not an object, or a number exceeds the range of a double.
            objects = (one if isinstance(one, dict) else {} for one in from_json(body)["items"])
            found = [tuple(one.get(key) for key in top) for one in objects]
        return [post(values) for values in found]

    return read


def _time_in(values: Sequence[Any], paths: Sequence[tuple[int, Sequence[str]]]) -> datetime | None:
    """Return the first time at these paths. A path is an index in `values`, and further keys below it."""
    for place, keys in paths:
        value = values[place]
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if (found := time_of(value)) is not None:
            return found
    return None
