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
    table_of,
)
from connectors.warehouse.merge.reading import Records, digest_rejected
from connectors.warehouse.merge.versions import superseded_versions
from connectors.warehouse.raw.parts import SCHEMA, write_part
from connectors.warehouse.storage.statements import statements
from models.item import read_items
from models.mapping import Field, FieldType, Registry, register
from models.mapping import Mapping as MediaMapping
from models.values import RejectedItem
from models.views import own_columns

_SQL = statements(__name__)

# So many items at a time are read before they become a table.
_ITEMS = 2000

# The columns of the raw store, as they are called here.
_RAW = (
    "seq", "position", "account_id", "surface", "media_id", "received_at", "run_id", "correlation_id", "payload",
)  # fmt: skip

# What listings of changed items found, and the columns of core.run_counts in which they are counted. Other listings
# found an item whose bytes are stored ("stored"), or that differs at most in addresses and what is ignored ("same").
_CHANGED = {"new": "added", "content": "changed", "counts": "changed"}


def merge_items(db: DuckDBPyConnection, records: Records, mapping: MediaMapping, raw: Path) -> int | None:
    """Compare the items of a batch with the stored ones, and write what became of them, in the open transaction.

    Items whose bytes are stored are not read. Alters core.media for new fields and types, before anything is written.
    Adds to what is counted, rejected and found in the records. Returns the number of the part of the raw store that has
    the bytes of what changed; None without one. Raises duckdb.Error and OSError.
    """
    if records.unknown_fields:
        known = read_registry(db)
        write_fields(db, known, register(known, records.unknown_fields, ()))
    if not records.raws:
        return None
    arrived = records.arrived()
    db.register("arrived", arrived)
    known = db.execute(_SQL["known"]).to_arrow_table()
    unread: Sequence[int] = sorted({*range(len(records.raws))}.difference(known["n"].to_pylist()))
    found = list[pa.Table]()
    while known.num_rows or unread:
        listed, unread = _merge_listings(db, records, known, unread, mapping)
        found.append(listed)
        # Those that follow are few, and are all read.
        known = known.slice(0, 0)
    listed = pa.concat_tables(found).sort_by("n")
    of_runs = listed.group_by(["run_seq", "found"]).aggregate([("n", "count"), ("is_removed", "sum")])
    for row in of_runs.to_pylist():
        if row["found"] in _CHANGED:
            records.counted[row["run_seq"], _CHANGED[row["found"]]] += row["n_count"]
        records.counted[row["run_seq"], "returned"] += row["is_removed_sum"]
    shared = listed.filter(listed["is_same_id"])
    for n, media_id in zip(shared["n"].to_pylist(), shared["media_id"].to_pylist(), strict=True):
        records.findings.append((records.page(n), "same_id", media_id))
    changed = listed.filter(pc.is_in(listed["found"], pa.array(_CHANGED)))
    return _write_raw(raw, records, arrived, changed)


def _merge_listings(
    db: DuckDBPyConnection, records: Records, known: pa.Table, unread: Sequence[int], mapping: MediaMapping
) -> tuple[pa.Table, Sequence[int]]:
    """Merge the first of these listings of each item; return what was found, and the numbers of those that follow.

    A statement costs a millisecond, so those without work are left out.
    """
    found, batch = known, pa.table({})
    columns: Sequence[Column] = ()
    if unread:
        batch, columns = _read_items(db, records, unread, mapping)
        db.register("known", known)
        db.register("batch", batch)
        query = _SQL["listed"].format(changed_counts=list_changed_counts(columns, columns))
        found = db.execute(query).to_arrow_table()
    is_later = pc.greater(found["turn"], 1)
    later, listed = found["n"].filter(is_later), found.filter(pc.invert(is_later))
    db.register("listed", listed)
    kinds, assignments = {*pc.unique(listed["found"]).to_pylist()}, ""
    if "content" in kinds:
        before = db.execute(_SQL["superseded"]).to_arrow_table()
        after = batch.filter(pc.is_in(batch["n"], before["n"]))
        versions = superseded_versions(before.to_pylist(), after.to_pylist(), columns, mapping)
        db.register("versions", pa.Table.from_pylist(versions))
        db.execute(_SQL["versions"])
    if "same" in kinds:
        query = _SQL["differing"].format(changed_columns=list_changed_columns(columns))
        [(differing,)] = db.execute(query).fetchall()
        assignments = "".join(f'"{name}" = b."{name}", ' for name in differing)
    steps = {
        "addresses": "same" in kinds,
        "counts": not kinds.isdisjoint(_CHANGED),
        "returned_events": pc.any(listed["is_removed"]).as_py(),
        "replaced": not kinds.isdisjoint({"content", "counts"}),
        "items": not kinds.isdisjoint(_CHANGED),
        "sightings": not kinds.isdisjoint({"stored", "same"}),
        "returned": pc.any(listed["is_missed"]).as_py(),
    }
    for name in [name for name, is_needed in steps.items() if is_needed]:
        db.execute(_SQL[name].format(assignments=assignments))
    # So that its memory is free before the next batch is read.
    db.unregister("batch")
    told = listed.select(["n", "run_seq", "media_id", "found", "is_removed", "is_same_id"])
    return told, sorted(later.to_pylist())


def _read_items(
    db: DuckDBPyConnection, records: Records, numbers: Sequence[int], mapping: MediaMapping
) -> tuple[pa.Table, Sequence[Column]]:
    """Return items as a table, and the columns that they fill. Adds to what is rejected.

    Registers the fields of the items; core.media has all the columns then.
    """
    known, present = read_registry(db), dict(db.execute(_SQL["columns"]).fetchall())
    own = {*own_columns("media"), *present, *(column.column for column in mapping.columns)}
    registry: Registry = known
    columns: Sequence[Column] = ()
    tables, rejected = list[pa.Table](), dict[int, RejectedItem]()
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


def _write_raw(folder: Path, records: Records, arrived: pa.Table, changed: pa.Table) -> int | None:
    """Write the bytes of changed items to a part of the raw store; return its number, or None without any."""
    if not changed.num_rows:
        return None
    numbers, rows = changed["n"].to_pylist(), arrived.take(changed["n"])
    pages = [records.page(n) for n in numbers]
    more = {
        "media_id": changed["media_id"],
        "run_id": pa.array([page.run_id for page in pages], pa.string()),
        "correlation_id": pa.array([page.correlation_id for page in pages], pa.string()),
        "payload": pa.array([records.raws[n] for n in numbers], pa.binary()),
    }
    for name, values in more.items():
        rows = rows.append_column(name, values)
    write_part(folder, pages[0].seq, rows.select(_RAW).rename_columns(SCHEMA.names))
    return pages[0].seq
