"""The items of a batch: which are stored, which are read, and what of them is written.

An item that a batch lists several times is merged as often: each listing is compared with what the one before left.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.columns import (
    Column,
    alter_columns,
    fields_of,
    item_columns,
    list_changed_columns,
    list_changed_counts,
    read_version,
    table_of,
)
from connectors.warehouse.merge.reading import Records, digest_rejected
from connectors.warehouse.raw.parts import write_part
from connectors.warehouse.storage.sql import statements
from models.item import read_items
from models.mapping import Field, FieldType, MediaMapping, Registry, register
from models.values import RejectedItem
from models.views import own_columns

_SQL = statements(__name__)

# So many items at a time are read before they become a table.
_ITEMS = 2000

# Of so few accounts, only their rows are read: of 10,000,000, that takes a third of the time. With more, comparing each
# row with all of their ids takes longer.
_FEW_ACCOUNTS = 100

# What listings found of items that are new, or whose content or counts changed: columns of core.run_counts. Others
# found an item whose bytes are stored ("stored"), or that differs at most in addresses and what is ignored ("same").
_WRITTEN = {"added", "changed"}
_KEPT = {"stored", "same"}

# What else listings may be, and the statements in their order, each with what it is needed for: a statement costs a
# millisecond, so those without work are left out.
_FLAGS = ("is_content", "is_removed", "is_same_id", "is_missed")
_STEPS = {
    "same_id": {"is_same_id"},
    "counts": _WRITTEN,
    "replaced": {"changed"},
    "items": _WRITTEN,
    "sightings": _KEPT,
    "returned": {"is_missed"},
}


def merge_items(db: DuckDBPyConnection, records: Records, mapping: MediaMapping, raw: Path) -> int | None:
    """Compare the items of a batch with the stored ones, and write what became of them, in the open transaction.

    Items whose bytes are stored are not read. Alters core.media for new fields and types, before anything is written.
    Adds to what is counted and rejected in the records. Returns the last landing of what changed, whose bytes are in a
    part of the raw store; None if nothing did. Raises duckdb.Error and OSError.
    """
    if records.unknown_fields:
        known = read_registry(db)
        write_fields(db, known, register(known, records.unknown_fields, ()))
    listings, written = records.table_of_items(), list[pa.Table]()
    arrived = listings
    while arrived.num_rows:
        listed, later = _merge_listings(db, records, arrived, mapping)
        for row in listed.group_by(["run_seq", "found"]).aggregate([([], "count_all")]).to_pylist():
            records.counted[row["run_seq"], row["found"]] += row["count_all"]
        written.append(listed.filter(pc.is_in(listed["found"], pa.array([*_WRITTEN]))).select(["n", "media_id"]))
        arrived = arrived.filter(pc.is_in(arrived["n"], later))
    if not sum(table.num_rows for table in written):
        return None
    changed = pa.concat_tables(written).sort_by("n")
    payloads = pa.array(map(records.raws.__getitem__, changed["n"].to_pylist()), pa.binary())
    rows = listings.take(changed["n"]).append_column("media_id", changed["media_id"]).append_column("payload", payloads)
    write_part(raw, rows["seq"][0].as_py(), rows.rename_columns({"seq": "landed", "received_at": "seen_at"}))
    last: int = rows["seq"][-1].as_py()
    return last


def _merge_listings(
    db: DuckDBPyConnection, records: Records, arrived: pa.Table, mapping: MediaMapping
) -> tuple[pa.Table, pa.ChunkedArray]:
    """Merge the first of these listings of each item; return what they found, and the numbers of those that follow."""
    db.register("arrived", arrived)
    accounts = pc.unique(arrived["account_id"]).to_pylist()
    few = {"few": accounts if len(accounts) <= _FEW_ACCOUNTS else None}
    known = db.execute(_SQL["known"], few).to_arrow_table()
    every, columns = known, list[Column]()
    if unread := sorted({*arrived["n"].to_pylist()}.difference(known["n"].to_pylist())):
        batch, columns = _read_items(db, records, unread, mapping)
        db.register("known", known)
        db.register("batch", batch)
        query = _SQL["listed"].format(changed_counts=list_changed_counts(columns, columns))
        every = db.execute(query, few).to_arrow_table()
    is_first = pc.equal(every["turn"], 1)
    later, listed = every["n"].filter(pc.invert(is_first)), every.filter(is_first)
    db.register("listed", listed)
    found = {*pc.unique(listed["found"]).to_pylist(), *(name for name in _FLAGS if pc.any(listed[name]).as_py())}
    if "is_content" in found:
        superseded = db.execute(_SQL["superseded"]).to_arrow_table().to_pylist()
        db.register("versions", pa.Table.from_pylist([read_version(row, columns, mapping) for row in superseded]))
        db.execute(_SQL["versions"])
    if "is_removed" in found:
        records.counted.update(db.execute(_SQL["returned_events"]).fetchall())
    if "same" in found:
        query = _SQL["differing"].format(changed_columns=list_changed_columns(columns))
        [(differing,)] = db.execute(query).fetchall()
        assignments = "".join(f'"{name}" = b."{name}", ' for name in differing)
        db.execute(_SQL["addresses"].format(assignments=assignments))
    for name, causes in _STEPS.items():
        if not causes.isdisjoint(found):
            db.execute(_SQL[name])
    # So that its memory is free before the next batch is read.
    db.unregister("batch")
    return listed, later


def _read_items(
    db: DuckDBPyConnection, records: Records, numbers: Sequence[int], mapping: MediaMapping
) -> tuple[pa.Table, list[Column]]:
    """Return items as a table, and the columns that they fill. Adds to what is rejected.

    Registers the fields of the items; core.media has all the columns then.
    """
    known, present = read_registry(db), dict(db.execute(_SQL["columns"]).fetchall())
    own = {*own_columns("media"), *present, *(column.column for column in mapping.columns)}
    registry: Registry = known
    columns, tables, rejected = list[Column](), list[pa.Table](), dict[int, RejectedItem]()
    # From the beginning when there is a new field or type: tables that are joined have the same columns. They need a
    # third of the memory of items.
    while (needed := item_columns(mapping, registry)) != columns:
        columns, tables, rejected = needed, [], {}
        for first in range(0, len(numbers), _ITEMS):
            items = read_items(((n, records.raws[n]) for n in numbers[first : first + _ITEMS]), mapping)
            fields = fields_of(items, lambda n: records.page(n).received_at, registry, mapping)
            registry = register(registry, fields, own)
            if item_columns(mapping, registry) != columns:
                break
            rejected |= items.rejected
            tables.append(table_of(items, columns))
    for statement in alter_columns(columns, present):
        db.execute(statement)
    write_fields(db, known, registry)
    for n, error in rejected.items():
        raw, position = records.raws[n], records.position[n]
        records.reject(records.page(n), position, str(error), raw.decode(), digest_rejected(raw, error, mapping))
    return pa.concat_tables(tables), columns


def read_registry(db: DuckDBPyConnection) -> Registry:
    """Return the registry of fields, in the order in which they were found. Raises duckdb.Error."""
    fields = [
        Field(resource, path, frozenset(map(FieldType, kinds)), *rest)
        for resource, path, kinds, *rest in db.execute(_SQL["fields"]).fetchall()
    ]
    return {(one.resource, one.path): one for one in fields}


def write_fields(db: DuckDBPyConnection, known: Registry, registry: Registry) -> None:
    """Write what differs in the registry from what is `known`, in the open transaction. Raises duckdb.Error."""
    rows = [
        {**asdict(one), "kinds": sorted(one.kinds), "column_type": one.type if one.column_name else None}
        for key, one in registry.items()
        if one != known.get(key)
    ]
    if rows:
        db.register("registered", pa.Table.from_pylist(rows))
        db.execute(_SQL["registered"])
