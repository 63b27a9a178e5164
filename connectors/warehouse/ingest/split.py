"""Splits media pages into the raw bytes of their items and hashes each, without parsing the items."""

from collections.abc import Collection, Sequence
from itertools import compress
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import xxhash

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.decode import Decoder
from connectors.warehouse.ingest.landing.frames import POSITION_BITS

_page = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


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

    def hashes_by_key(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a table of `order_key` and `payload_hash`."""
        columns = {
            "order_key": array_of(self.order_keys, pa.int64()),
            "payload_hash": array_of(self.hashes, pa.binary()),
        }
        return pa.table(columns)

    def decode(self, decoder: Decoder, *, stored: Collection[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Add the items to the decoder, except for these order keys; return a table of `order_key` and `payload`."""
        order_keys, raw = self.order_keys, self.raw
        if stored:
            wanted = [order_key not in stored for order_key in order_keys]
            order_keys, raw = list(compress(order_keys, wanted)), list(compress(raw, wanted))
        decoder.add(order_keys, raw)
        return texts(order_keys, raw)

    def texts_of(self, order_keys: Collection[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a table of `order_key` and `payload` of some of the items."""
        found = {key: one for key, one in zip(self.order_keys, self.raw, strict=True) if key in order_keys}
        return texts(list(found), list(found.values()))


def texts(order_keys: Sequence[int], raw: Sequence[bytes]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a table of `order_key` and `payload`."""
    return pa.table({"order_key": array_of(order_keys, pa.int64()), "payload": array_of(raw, pa.string())})


def hash_of(raw: bytes) -> bytes:
    """Return the hash of an item's bytes, 16 bytes."""
    return xxhash.xxh3_128_digest(raw)


class NotAPage(ValueError):  # noqa: N818 - the name describes the body
    """A body that is not a JSON object with a list of items."""


def raw_items(body: bytes | memoryview) -> list[msgspec.Raw]:
    """Return the bytes of each item of a media page, unchanged, as views of the body. Raises NotAPage."""
    try:
        return _items.decode(_page.decode(body)["items"])
    except (msgspec.DecodeError, KeyError, RecursionError) as error:
        raise NotAPage(str(error)) from error


def split(pages: Sequence[Page]) -> tuple[Items, list[Page]]:
    """Split pages into items; return the items, and the pages that could not be split."""
    order_keys: list[int] = []
    raw: list[msgspec.Raw] = []
    unreadable: list[Page] = []
    for seq, body in pages:
        try:
            found = raw_items(body)
        except NotAPage:
            unreadable.append((seq, bytes(body)))
            continue
        first = seq << POSITION_BITS
        order_keys.extend(range(first, first + len(found)))
        raw += found
    return Items(order_keys, raw, list(map(hash_of, raw))), unreadable
