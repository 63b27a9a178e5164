"""The items of a batch: which are stored, which are read, and what of them is written."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.columns import Column, alter_columns, fields_of, item_columns, sql_lists, table_of
from connectors.warehouse.merge.reading import Records, Rejected, read_batch_items
from connectors.warehouse.merge.run_counts import Counted
from connectors.warehouse.merge.versions import superseded_versions
from connectors.warehouse.raw.parts import SCHEMA, write_part
from connectors.warehouse.storage.statements import statements
from models.fields import Field, FieldType, Registry, register
from models.landing import Landing
from models.mapping import Mapping as MediaMapping
from models.views import own_columns

_SQL = statements(__name__)

# So many items at a time are read before they become a table.
_ITEMS = 2000

# The columns of the raw store, as they are called here.
_RAW = (
    "seq", "position", "account_id", "surface", "media_id", "received_at", "run_id", "correlation_id", "payload",
)  # fmt: skip

_SIGHTINGS = [("n", pa.int64()), ("row", pa.int64()), ("is_missed", pa.bool_()), ("is_removed", pa.bool_())]
_FLAGS = [(name, pa.bool_()) for name in ("is_new", "is_content", "is_changed", "is_same_id")]
_KNOWN = pa.schema(_SIGHTINGS)
_LISTED = pa.schema([*_SIGHTINGS, ("media_id", pa.string()), *_FLAGS])


class Merged(NamedTuple):
    """What was found in the items of a batch.

    `shared_ids` are ids that one scan has of items with different times or permalinks, with their pages. `raw_seq` is
    the number of the part of the raw store with their bytes; None without one.
    """

    counted: Counted
    rejected: Sequence[Rejected]
    shared_ids: Sequence[tuple[Landing, str]]
    raw_seq: int | None


def merge_items(db: DuckDBPyConnection, records: Records, mapping: MediaMapping, raw: Path) -> Merged:
    """Compare the items of a batch with the stored ones, and write what became of them, in the open transaction.

    Items whose bytes are stored are not read. Alters core.media for new fields and types, before anything is written.
    Raises duckdb.Error and OSError.
    """
    arrived, known, listed = records.arrived(), _KNOWN.empty_table(), _LISTED.empty_table()
    rejected: Sequence[Rejected] = ()
    columns: Sequence[Column] = ()
    db.register("arrived", arrived)
    if records.raws:
        known = db.execute(_SQL["known"]).to_arrow_table()
    numbers = sorted({*range(len(records.raws))}.difference(known["n"].to_pylist()))
    while numbers or records.unknown_fields:
        tables, columns, rejected = _read_items(db, records, numbers, mapping)
        if not tables:
            break
        db.register("batch", pa.concat_tables(tables))
        db.execute(_SQL["listed"].format(**sql_lists(columns)))
        listed = db.execute(_SQL["flags"]).to_arrow_table()
        # If an item was also listed with the stored bytes, the order of all of its listings counts.
        is_mixed = pc.is_in(known["row"], pc.unique(listed["row"]))
        if not (mixed := known["n"].filter(is_mixed).to_pylist()):
            break
        numbers, known = sorted([*numbers, *mixed]), known.filter(pc.invert(is_mixed))
    sighted = _find_sighted(known, listed)
    raw_seq = _write_raw(raw, records, arrived, listed)
    if records.raws:
        _write_items(db, listed, sighted, columns, mapping)
    is_changed_one = pc.and_not(listed["is_changed"], listed["is_new"])
    kinds = {
        "added": listed["n"].filter(listed["is_new"]),
        "changed": listed["n"].filter(is_changed_one),
        "returned": sighted["first"].filter(sighted["is_removed"]),
    }
    counted = Counted()
    for name, of_kind in kinds.items():
        for run_seq, number in Counter(arrived["run_seq"].take(of_kind).to_pylist()).items():
            counted[run_seq, name] += number
    shared = listed.filter(listed["is_same_id"])
    pages = map(records.page, shared["n"].to_pylist())
    return Merged(counted, rejected, [*zip(pages, shared["media_id"].to_pylist(), strict=True)], raw_seq)


def _read_items(
    db: DuckDBPyConnection, records: Records, numbers: Sequence[int], mapping: MediaMapping
) -> tuple[Sequence[pa.Table], Sequence[Column], Sequence[Rejected]]:
    """Return items in tables, which need a third of their memory, the columns that they fill, and the rejected ones.

    Registers the fields of items and pages; core.media has all the columns then.
    """
    known, present = read_registry(db), dict(db.execute(_SQL["columns"]).fetchall())
    own = {*own_columns("media"), *present, *(column.column for column in mapping.columns)}
    registry: Registry = known
    columns: Sequence[Column] = ()
    tables, rejected = list[pa.Table](), list[Rejected]()
    # From the beginning when there is a new field or type: tables that are joined have the same columns.
    while (needed := item_columns(mapping, registry)) != columns:
        columns, tables, rejected = needed, [], []
        for first in range(0, len(numbers), _ITEMS):
            items, more = read_batch_items(records, numbers[first : first + _ITEMS], mapping)
            registry = register(registry, fields_of(records, items, registry, mapping), own)
            if item_columns(mapping, registry) != columns:
                break
            rejected += more
            tables.append(table_of(items, columns))
    registry = register(registry, records.unknown_fields, own)
    for statement in alter_columns(columns, present):
        db.execute(statement)
    if changed := [one for key, one in registry.items() if one != known.get(key)]:
        db.register("registered", table_of_fields(changed))
        db.execute(_SQL["registered"])
    return tables, columns, rejected


def read_registry(db: DuckDBPyConnection) -> Registry:
    """Return the registry of fields, in the order in which they were found. Raises duckdb.Error."""
    fields = [
        Field(resource, path, frozenset(map(FieldType, kinds)), *rest)
        for resource, path, kinds, *rest in db.execute(_SQL["fields"]).fetchall()
    ]
    return {(one.resource, one.path): one for one in fields}


def table_of_fields(fields: Collection[Field]) -> pa.Table:
    """Return fields as rows of core.fields."""
    times = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "resource": [one.resource for one in fields],
            "path": [one.path for one in fields],
            "column_name": pa.array([one.column_name for one in fields], pa.string()),
            "column_type": pa.array([one.type if one.column_name else None for one in fields], pa.string()),
            "kinds": pa.array([sorted(one.kinds) for one in fields], pa.list_(pa.string())),
            "is_count": [one.is_count for one in fields],
            "ordinal": [one.ordinal for one in fields],
            "first_seen_at": pa.array([one.first_seen_at for one in fields], times),
            "last_type_change_at": pa.array([one.last_type_change_at for one in fields], times),
        }
    )


def _find_sighted(known: pa.Table, listed: pa.Table) -> pa.Table:
    """Return the stored rows that the batch listed: their first and last listing in it, and whether they changed."""
    found = pa.concat_tables([known, listed.filter(pc.field("row") >= 0)], promote_options="default")
    flags = ["is_missed", "is_removed", "is_changed"]
    found = found.group_by("row", use_threads=False).aggregate(
        [("n", "min"), ("n", "max"), *((name, "any") for name in flags)]
    )
    sighted = found.select(["row", "n_min", "n_max", *(f"{name}_any" for name in flags)])
    sighted = sighted.rename_columns(["row", "first", "last", *flags])
    return sighted.set_column(5, "is_changed", sighted["is_changed"].fill_null(fill_value=False))


def _write_raw(folder: Path, records: Records, arrived: pa.Table, listed: pa.Table) -> int | None:
    """Write the bytes of new and changed items to a part of the raw store; return its number, or None without any."""
    changed = listed.filter(listed["is_changed"])
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


def _write_items(
    db: DuckDBPyConnection, listed: pa.Table, sighted: pa.Table, columns: Sequence[Column], mapping: MediaMapping
) -> None:
    """Write what became of the items: versions, counts, rows, addresses and sightings.

    A statement costs a millisecond, so those without work are left out.
    """
    db.register("sighted", sighted)
    lists = dict(sql_lists(columns))
    if _any(pc.and_not(listed["is_content"], listed["is_new"])):
        rows = db.execute(_SQL["superseded"]).to_arrow_table().to_pylist()
        db.register("versions", pa.Table.from_pylist([*superseded_versions(rows, columns, mapping)]))
        db.execute(_SQL["versions"])
    is_changed, is_unchanged = _any(listed["is_changed"]), _any(pc.invert(listed["is_changed"]))
    if is_unchanged:
        [(differing,)] = db.execute(_SQL["differing"].format(**lists)).fetchall()
        lists["assignments"] = "".join(f'"{name}" = b."{name}", ' for name in differing)
    steps = {
        "addresses": is_unchanged,
        "counts": is_changed,
        "returned_events": _any(sighted["is_removed"]),
        "replaced": _any(sighted["is_changed"]),
        "items": is_changed,
        "sightings": _any(pc.invert(sighted["is_changed"])),
        "returned": _any(sighted["is_missed"]),
    }
    for name in [name for name, is_needed in steps.items() if is_needed]:
        db.execute(_SQL[name].format(**lists))
    # So that its memory is free before the next batch is read.
    db.unregister("batch")


def _any(flags: pa.ChunkedArray) -> bool:
    return bool(pc.any(flags).as_py())
