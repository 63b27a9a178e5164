"""Decodes stored items again, in batches of a few thousand: for new or widened columns, and for a rebuild."""

from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from connectors.warehouse.ingest.arrays import array_of, instants_of
from connectors.warehouse.ingest.cells import RegisteredCells, observations, register_cells
from connectors.warehouse.ingest.decode import Decoded, Decoder
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.ingest.split import hash_of
from connectors.warehouse.raw.reading import stored_payloads
from connectors.warehouse.storage.connection import Connection
from models.mapping import Mapping
from models.schema.fields import OwnNames, Registry, register


@dataclass(frozen=True, slots=True)
class StoredItems:
    """A table whose rows were decoded from the raw store; `at` is the column with the time of the observation."""

    table: str
    at: str


def present(table: str) -> StoredItems:
    """Return the items of a table of schema `core`."""
    return StoredItems(f"core.{table}", "changed_at")


def superseded(table: str) -> StoredItems:
    """Return the earlier versions of the items of a table of schema `core`."""
    return StoredItems(f"core.{table}_superseded", "valid_from")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Some rows of a table, decoded again: their cells, and a relation with their hashes (`payload_hash`).

    The order key is the `rowid`.
    """

    cells: RegisteredCells
    hashes: str


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch as read from the raw store, decoded with a registry that began as `known`, and its hashes."""

    rows: Any
    known: Registry
    decoded: Decoded
    hashes: Any


def _received_at(times: Any, order_keys: list[int], order_key: int) -> datetime:  # noqa: ANN401 - pyarrow has no types
    (found,) = instants_of(times.slice(bisect_left(order_keys, order_key), 1))
    return found


def _decode(rows: Any, mapping: Mapping, registry: Registry, own: OwnNames) -> _Batch:  # noqa: ANN401 - pyarrow has no types
    order_keys, payloads = rows["order_key"].to_pylist(), rows["payload"].cast(pa.binary()).to_pylist()
    decoder = Decoder(mapping, registry, own, partial(_received_at, rows["received_at"], order_keys))
    decoder.add(order_keys, payloads)
    hashes = array_of(list(map(hash_of, payloads)), pa.binary())
    table = pa.table({"order_key": rows["order_key"], "payload_hash": hashes})
    return _Batch(rows, registry, decoder.finish(), table)


def decode_stored(
    connection: Connection, stored: StoredItems, mapping: Mapping, registry: Registry, own: OwnNames
) -> Iterator[StoredBatch]:
    """Decode the payloads of a table in batches; a batch replaces the relations of the one before it.

    Fields found in one batch are in the registry of the next ones. The next batch is decoded on a thread while the
    caller uses a batch. Raises WarehouseUnusable, also if a row has no payload (see `stored_payloads`).
    """
    tables = ArrowTables(connection.db)
    payloads = stored_payloads(connection, stored.table, stored.at)
    with ThreadPoolExecutor(1, thread_name_prefix="decoding") as thread:

        def decode_next() -> Future[_Batch] | None:
            rows = next(payloads, None)
            return None if rows is None else thread.submit(_decode, rows, mapping, registry, own)

        following = decode_next()
        while following is not None:
            batch, following = following.result(), decode_next()
            if batch.known != registry:
                # The batch before it had new fields, which were not known yet.
                batch = _decode(batch.rows, mapping, registry, own)
            registered = _register(connection, tables, batch, mapping, own)
            registry = registered.cells.registry
            yield registered
    tables.drop()


def _register(
    connection: Connection, tables: ArrowTables, batch: _Batch, mapping: Mapping, own: OwnNames
) -> StoredBatch:
    """Register the tables of a batch; their registry has the facts about the mapping that the cells show."""
    received = f"SELECT order_key, received_at FROM {tables.put('stored_payloads', batch.rows)}"  # noqa: S608 - a constant
    hashes = tables.put("stored_hashes", batch.hashes)
    # A merge has registered its own cells.
    cells = register_cells(tables, batch.decoded, "stored_")
    registry = register(cells.registry, observations(connection.db, cells, mapping, received), own)
    return StoredBatch(replace(cells, registry=registry), hashes)
