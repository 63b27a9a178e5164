"""Splits media pages into the raw bytes of their items and hashes each, without parsing the items."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import xxhash

# A body has at most 64 MB and an item at least two bytes, so a page has fewer than 2^26 items.
POSITION_BITS = 26

_page = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


# The number of a page's landing, and its body.
Page = tuple[int, bytes]


class Items(NamedTuple):
    """Raw items as parallel lists: order keys, bytes, and the hashes of the bytes.

    An order key is unique among all items that ever landed, and increases in the order of landing: the page's landing
    number, shifted by `POSITION_BITS`, plus the item's position on the page, from 0.
    """

    order_keys: list[int]
    raw: list[bytes]
    hashes: list[bytes]


class NotAPage(ValueError):  # noqa: N818 - the name describes the body
    """A body that is not a JSON object with a list of items."""


def raw_items(body: bytes) -> list[bytes]:
    """Return the bytes of each item of a media page, unchanged. Raises NotAPage."""
    try:
        return list(map(bytes, _items.decode(_page.decode(body)["items"])))
    except (msgspec.DecodeError, KeyError, RecursionError) as error:
        raise NotAPage(str(error)) from error


def split(pages: Sequence[Page]) -> tuple[Items, list[Page]]:
    """Split pages into items; return the items, and the pages that could not be split."""
    order_keys: list[int] = []
    raw: list[bytes] = []
    unreadable: list[Page] = []
    for seq, body in pages:
        try:
            found = raw_items(body)
        except NotAPage:
            unreadable.append((seq, body))
            continue
        first = seq << POSITION_BITS
        order_keys.extend(range(first, first + len(found)))
        raw += found
    return Items(order_keys, raw, list(map(xxhash.xxh3_128_digest, raw))), unreadable
