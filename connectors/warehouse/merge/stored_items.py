"""Decodes stored items again, in batches of a few thousand: for new or widened columns, and for a rebuild."""

from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import xxhash

from connectors.warehouse.ingest.arrays import array_of, instants_of
from connectors.warehouse.ingest.cells import observations, register_cells
from connectors.warehouse.ingest.decode import Decoded, Decoder
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.raw.reading import stored_payloads
from connectors.warehouse.storage.connection import Connection
from models.schema.fields import OwnNames, Registry
from models.schema.mapping import Mapping

_RECEIVED = "SELECT order_key, received_at FROM stored_payloads"


@dataclass(frozen=True, slots=True)
class StoredItems:
    """A table whose rows were decoded from the raw store; `at` is the column with the time of the observation."""

    table: str
    at: str


PRESENT = StoredItems("core.media", "changed_at")
SUPERSEDED = StoredItems("core.media_superseded", "valid_from")


@dataclass(frozen=True, slots=True)
class _Batch:
    """Order keys in ascending order, payloads, and when these were received; `rows` has all three in one table."""

    rows: Any
    order_keys: list[int]
    payloads: list[bytes]

    def received_at(self, order_key: int) -> datetime:
        (found,) = instants_of(self.rows["received_at"].slice(bisect_left(self.order_keys, order_key), 1))
        return found


@dataclass(frozen=True, slots=True)
class _DecodedBatch:
    """A batch with its decoder, which began with the registry `known`, its cells, and the hashes of its payloads."""

    batch: _Batch
    known: Registry
    decoder: Decoder
    cells: Decoded
    hashes: Any


def _decode(rows: Any, mapping: Mapping, registry: Registry, own: OwnNames) -> _DecodedBatch:  # noqa: ANN401 - pyarrow has no types
    batch = _Batch(rows, rows["order_key"].to_pylist(), rows["payload"].cast(pa.binary()).to_pylist())
    decoder = Decoder(mapping, registry, own, batch.received_at)
    decoder.add(batch.order_keys, batch.payloads)
    hashes = array_of(list(map(xxhash.xxh3_128_digest, batch.payloads)), pa.binary())
    table = pa.table({"order_key": rows["order_key"], "payload_hash": hashes})
    return _DecodedBatch(batch, registry, decoder, decoder.finish(), table)


def decode_stored(
    connection: Connection, stored: StoredItems, mapping: Mapping, registry: Registry, own: OwnNames
) -> Iterator[Decoded]:
    """Decode the payloads of a table in batches, and yield the cells of each batch; the order key is the `rowid`.

    Rows without `raw_landed` are left out. Fields found in one batch are in the registry of the next ones. The
    registered table `stored_hashes` has the hash of each payload by order key. The next batch is decoded on a thread
    while the caller uses a batch.
    """
    tables = ArrowTables(connection.db)
    payloads = stored_payloads(connection, stored.table, stored.at)
    with ThreadPoolExecutor(1, thread_name_prefix="decoding") as thread:

        def decode_next() -> Future[_DecodedBatch] | None:
            rows = next(payloads, None)
            return None if rows is None else thread.submit(_decode, rows, mapping, registry, own)

        following = decode_next()
        while following is not None:
            one, following = following.result(), decode_next()
            if one.known != registry:
                one = _decode(one.batch.rows, mapping, registry, own)
            decoded = _learn(connection, tables, one, mapping)
            registry = decoded.registry
            yield decoded


def _learn(connection: Connection, tables: ArrowTables, one: _DecodedBatch, mapping: Mapping) -> Decoded:
    """Register the cells and hashes of a batch; return the cells with the fields that only values tell."""
    tables.put("stored_payloads", one.batch.rows)
    tables.put("stored_hashes", one.hashes)
    decoder, decoded = one.decoder, one.cells
    while True:
        register_cells(tables, decoded)
        before = decoder.registry
        decoder.learn(list(observations(connection.db, decoded.layout, mapping, _RECEIVED)))
        if decoder.registry == before:
            return decoded
        decoded = decoder.finish()


def learn_stored(connection: Connection, mapping: Mapping, known: Registry, own: OwnNames) -> Registry:
    """Return the registry with the fields of all stored items and their earlier versions added."""
    for stored in (PRESENT, SUPERSEDED):
        for decoded in decode_stored(connection, stored, mapping, known, own):
            known = decoded.registry
    return known
