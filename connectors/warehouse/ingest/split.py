"""Splits media pages into the raw bytes of their items and hashes each, without parsing the items."""

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import xxhash

from connectors.warehouse.ingest.arrays import array_of
from models.page_commit import POSITION_BITS


class _Body(msgspec.Struct):
    items: list[msgspec.Raw]


_body = msgspec.json.Decoder(_Body)

# The number of a page's landing, and its body.
Page = tuple[int, bytes | memoryview]


class Items(NamedTuple):
    """Raw items as parallel lists: order keys, bytes (views of the pages' bodies), and the hashes of the bytes.

    An order key is unique among all items that ever landed, and increases in the order of landing: the page's landing
    number, shifted by `POSITION_BITS`, plus the item's position on the page, from 0.
    """

    order_keys: list[int]
    raw: list[msgspec.Raw]
    hashes: list[bytes]

    def selected(self, wanted: Sequence[bool]) -> "Items":
        """Return some of the items."""
        return Items(
            list(compress(self.order_keys, wanted)),
            list(compress(self.raw, wanted)),
            list(compress(self.hashes, wanted)),
        )

    def texts(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a table of `order_key` and `payload`."""
        order_keys, payloads = array_of(self.order_keys, pa.int64()), array_of(self.raw, pa.string())
        return pa.table({"order_key": order_keys, "payload": payloads})


def hash_of(raw: bytes) -> bytes:
    """Return the hash of an item's bytes, 16 bytes."""
    return xxhash.xxh3_128_digest(raw)


def raw_items(body: bytes | memoryview) -> list[msgspec.Raw]:
    """Return the items of a page, views of its body. Raises msgspec.DecodeError and RecursionError."""
    return _body.decode(body).items


def split(pages: Sequence[Page]) -> tuple[Items, list[Page]]:
    """Split pages into items; return the items, and the pages that are not JSON objects with a list of items."""
    order_keys: list[int] = []
    raw: list[msgspec.Raw] = []
    unreadable: list[Page] = []
    for seq, body in pages:
        try:
            found = raw_items(body)
        except (msgspec.DecodeError, RecursionError):
            unreadable.append((seq, bytes(body)))
            continue
        first = seq << POSITION_BITS
        order_keys.extend(range(first, first + len(found)))
        raw += found
    return Items(order_keys, raw, list(map(hash_of, raw))), unreadable
