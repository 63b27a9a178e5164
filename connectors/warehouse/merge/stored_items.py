"""Decodes stored items again, in batches of a few thousand: for new or widened columns, and for a rebuild."""

from bisect import bisect_left
from collections.abc import Iterator
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


def _batches(
    connection: Connection, stored: StoredItems, tables: ArrowTables
) -> Iterator[tuple[list[int], list[bytes], Any]]:
    """Yield order keys in ascending order, payloads, and when these were received, as an Arrow array."""
    for rows in stored_payloads(connection, stored.table, stored.at):
        tables.put("stored_payloads", rows)
        order_keys, payloads, times = (rows.column(name) for name in ("order_key", "payload", "received_at"))
        yield order_keys.to_pylist(), payloads.cast(pa.binary()).to_pylist(), times


def decode_stored(
    connection: Connection, stored: StoredItems, mapping: Mapping, registry: Registry, own: OwnNames
) -> Iterator[Decoded]:
    """Decode the payloads of a table in batches, and yield the cells of each batch; the order key is the `rowid`.

    Rows without `raw_landed` are left out. Fields found in one batch are in the registry of the next ones. The
    registered table `stored_hashes` has the hash of each payload by order key.
    """
    db = connection.db
    tables = ArrowTables(db)
    for order_keys, payloads, times in _batches(connection, stored, tables):

        def received_at(order_key: int, order_keys: list[int] = order_keys, times: Any = times) -> datetime:  # noqa: ANN401 - pyarrow has no types
            (found,) = instants_of(times.slice(bisect_left(order_keys, order_key), 1))
            return found

        decoder = Decoder(mapping, registry, own, received_at)
        decoder.add(order_keys, payloads)
        while True:
            decoded = decoder.finish()
            register_cells(tables, decoded)
            before = decoder.registry
            decoder.learn(list(observations(db, decoded.layout, mapping, _RECEIVED)))
            if decoder.registry == before:
                break
        registry = decoded.registry
        hashes = array_of(list(map(xxhash.xxh3_128_digest, payloads)), pa.binary())
        tables.put("stored_hashes", pa.table({"order_key": array_of(order_keys, pa.int64()), "payload_hash": hashes}))
        yield decoded


def learn_stored(connection: Connection, mapping: Mapping, known: Registry, own: OwnNames) -> Registry:
    """Return the registry with the fields of all stored items and their earlier versions added."""
    for stored in (PRESENT, SUPERSEDED):
        for decoded in decode_stored(connection, stored, mapping, known, own):
            known = decoded.registry
    return known
