"""Ids and times of the items of a page, read when it lands, and the ids of the records that a merge reads."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from models.incremental import Post
from models.item import find_ids_and_times
from models.mapping import Mapping
from models.partial_json import elements, members
from models.record import RejectedItem, decode_record


class _Page(msgspec.Struct):
    items: list[Any]


_decode_page = msgspec.json.Decoder(_Page).decode


def identities(body: str, posts: Sequence[Post]) -> list[str]:
    """Return what identifies the posts of a media page: their ids, or the JSON text of one that has no id."""
    ids = [post.media_id for post in posts if post.media_id is not None]
    if len(ids) == len(posts):
        return ids
    texts = elements(members(body.encode())["items"])
    return [post.media_id or text.decode() for post, text in zip(posts, texts, strict=True)]


def post_reader(mapping: Mapping) -> Callable[[str], Sequence[Post]]:
    """Return a function that reads the posts of a page's text with this mapping."""

    def read(body: str) -> Sequence[Post]:
        records: Iterable[object]
        try:
            records = _decode_page(body).items
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            records = map(_decode, elements(members(body.encode())["items"]))
        return [Post(*found) for found in find_ids_and_times(records, mapping)]

    return read


def _decode(raw: bytes) -> object:
    try:
        return decode_record(raw)
    except RejectedItem:
        return None
