"""Typed parts: the items of several pages as Arrow data, hashed and decoded on a worker.

A typed part is an Arrow stream with one row for each item: `page` (its index among the commits of the log entry),
`position` (on the page), `payload_hash`, `payload` (empty if the warehouse has these bytes) and `values` (of the Arrow
decoder; NULL if it rejected the item). Its metadata are the field registry and the mapping with which the items were
decoded.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.decode import DecodedItems, Decoder
from connectors.warehouse.ingest.landing.page_commit import POSITION_BITS, TypedPart
from connectors.warehouse.ingest.layout import Layout, layout
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line
from models.schema.fields import Field, OwnNames, Registry
from models.schema.mapping import Mapping

_REGISTRY, _MAPPING = b"registry", b"mapping"


@dataclass(frozen=True, slots=True)
class PageItems:
    """The items of a page: their hashes, and their bytes, empty for those that need not be sent.

    `index` is the page's among the commits of its log entry.
    """

    index: int
    received_at: datetime
    raw: Sequence[bytes]
    hashes: Sequence[bytes]


def encode_items(
    pages: Iterable[PageItems], registry: Registry, mapping: Mapping, own: OwnNames
) -> tuple[bytes, Registry]:
    """Decode the items of pages; return the part, and the registry with the fields that were found."""
    found = list(pages)
    raw = [one for page in found for one in page.raw]
    sent = [row for row, one in enumerate(raw) if one]
    received = [page.received_at for page in found for _ in page.raw]
    while True:
        decoder = Decoder(mapping, registry, own, received.__getitem__)
        decoder.add(sent, [one for one in raw if one])
        if decoder.registry == registry:
            break
        # Repeated, so that all items are decoded with the fields that were found in any of them.
        registry = decoder.registry
    rows, values = decoder.decoded_by_arrow()
    columns = {
        "page": array_of([page.index for page in found for _ in page.raw], pa.int32()),
        "position": array_of([position for page in found for position in range(len(page.raw))], pa.int32()),
        "payload_hash": array_of([one for page in found for one in page.hashes], pa.binary()),
        "payload": array_of(raw, pa.string()),
    }
    if values is not None:
        everything = array_of(range(len(raw)), pa.int64())
        columns["values"] = values if rows.equals(everything) else values.take(pc.index_in(everything, rows))
    metadata = {_REGISTRY: msgspec.json.encode(list(registry.values())), _MAPPING: mapping.to_json().encode()}
    batch = pa.record_batch(columns).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes(), registry


@lru_cache(maxsize=256)
def _registry(text: bytes) -> Registry:
    return {(field.resource, field.path): field for field in msgspec.json.decode(text, type=list[Field])}


@lru_cache(maxsize=256)
def _layout(mapping: Mapping, registry: bytes) -> Layout:
    return layout(mapping, _registry(registry))


@dataclass(frozen=True, slots=True)
class TypedItems:
    """The items of a part, as Arrow arrays; see `split.Items`."""

    order_keys: Any
    payloads: Any
    hashes: Any
    decoded: DecodedItems | None

    def hashes_by_key(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a table of `order_key` and `payload_hash`."""
        return pa.table({"order_key": self.order_keys, "payload_hash": self.hashes})

    def decode(self, decoder: Decoder, *, stored: Collection[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Add the items to the decoder, except for these order keys; return a table of `order_key` and `payload`."""
        wanted = pc.greater(pc.binary_length(self.payloads), 0)
        if stored:
            wanted = pc.and_not(wanted, pc.is_in(self.order_keys, array_of(list(stored), pa.int64())))
        order_keys, payloads, decoded = self.order_keys, self.payloads, self.decoded
        if wanted.false_count:
            order_keys, payloads = order_keys.filter(wanted), payloads.filter(wanted)
            decoded = decoded and replace(decoded, values=decoded.values.filter(wanted))
        decoder.add_decoded(order_keys, payloads, decoded)
        return pa.table({"order_key": order_keys, "payload": payloads})

    def texts_of(self, order_keys: Collection[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a table of `order_key` and `payload` of some of the items, without those that were not sent."""
        wanted = pc.is_in(self.order_keys, array_of(list(order_keys), pa.int64()))
        wanted = pc.and_(wanted, pc.greater(pc.binary_length(self.payloads), 0))
        found = pa.table({"order_key": self.order_keys, "payload": self.payloads})
        return found.filter(wanted)


def read_items(part: TypedPart, mapping: Mapping) -> TypedItems:
    """Return the items of a part; without decoded values if they were decoded with another mapping.

    Raises WarehouseUnusable if the part cannot be read, for example because another version wrote it.
    """
    try:
        return _items(part, mapping)
    except (pa.ArrowException, KeyError, StopIteration, msgspec.MsgspecError) as error:
        message = (
            f"the items of a worker cannot be read ({first_line(error)}). Fix: install the same version everywhere."
        )
        raise WarehouseUnusable(message) from error


def _items(part: TypedPart, mapping: Mapping) -> TypedItems:
    with pa.ipc.open_stream(pa.py_buffer(part.data)) as reader:
        batch = reader.read_next_batch()
    batch.validate()
    seqs = pc.add(pc.cast(batch["page"], pa.int64()), pa.scalar(part.after + 1, pa.int64()))
    order_keys = pc.add(pc.shift_left(seqs, POSITION_BITS), pc.cast(batch["position"], pa.int64()))
    metadata = batch.schema.metadata
    decoded = None
    if "values" in batch.schema.names and metadata[_MAPPING] == mapping.to_json().encode():
        text = metadata[_REGISTRY]
        decoded = DecodedItems(batch["values"], _layout(mapping, text), _registry(text))
    return TypedItems(order_keys, batch["payload"], batch["payload_hash"], decoded)
