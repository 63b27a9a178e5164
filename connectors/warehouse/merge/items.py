"""The items of a batch: which are stored, which are read, and what of them is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.columns import (
    Column,
    alter_columns,
    fields_of,
    item_columns,
    join_tables,
    sql_lists,
    table_of,
)
from connectors.warehouse.merge.reading import Records, Rejected, read_batch_items
from connectors.warehouse.merge.versions import superseded_versions
from connectors.warehouse.raw.parts import write_part
from connectors.warehouse.storage.statements import statements
from models.fields import Field, FieldType, Registry, register
from models.item import Items
from models.mapping import Mapping as MediaMapping
from models.views import own_columns

_SQL = statements(__name__)

# So many items at a time are read before they become a table.
_ITEMS = 2000

_SIGHTINGS = [("n", pa.int64()), ("row", pa.int64()), ("is_missed", pa.bool_()), ("is_removed", pa.bool_())]
_FLAGS = ("is_new", "is_content", "is_changed", "is_same_id")
_OF_KNOWN = pa.schema(_SIGHTINGS)
_OF_READ = pa.schema([*_SIGHTINGS, *((name, pa.bool_()) for name in _FLAGS)])


@dataclass(slots=True)
class ReadItems:
    """The items of a batch once they are compared with the stored ones.

    `known` are those whose bytes are stored, by number `n` and stored `row`. The others were read: `media_ids` by
    number, and `flags`, which say what became of them. `lists` fill the braces of statements.
    """

    known: pa.Table = field(default_factory=_OF_KNOWN.empty_table)
    flags: pa.Table = field(default_factory=_OF_READ.empty_table)
    media_ids: dict[int, str] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    columns: Sequence[Column] = ()
    registry: Registry = field(default_factory=dict)
    lists: Mapping[str, str] = field(default_factory=dict)

    def numbers(self, flag: str) -> pa.ChunkedArray:
        """Return the numbers of the items with this flag."""
        return self.flags["n"].filter(self.flags[flag])


def compare_items(db: DuckDBPyConnection, records: Records, arrived: pa.Table, mapping: MediaMapping) -> ReadItems:
    """Find the items that are stored, read the others, and compare these with what is stored.

    Alters core.media for new fields and types, before anything is written. Raises duckdb.Error.
    """
    read = ReadItems()
    db.register("arrived", arrived)
    if records.raws:
        read.known = db.execute(_SQL["known"]).to_arrow_table()
    known = set(read.known["n"].to_pylist())
    unknown = [n for n in range(len(records.raws)) if n not in known]
    if not unknown and not records.unknown_fields and not _lacks_columns(db, mapping):
        return read
    table = _read_unknown(db, records, unknown, read, mapping)
    while table.num_rows:
        db.register("batch", table)
        db.execute(_SQL["listed"].format(**read.lists))
        read.flags = db.execute(_SQL["flags"]).to_arrow_table()
        # If an item was also listed with the stored bytes, the order of all of its listings counts.
        is_mixed = pc.is_in(read.known["row"], pc.unique(read.flags["row"]))
        mixed = read.known["n"].filter(is_mixed).to_pylist()
        if not mixed:
            break
        items, _ = read_batch_items(records, mixed, mapping)
        read.known = read.known.filter(pc.invert(is_mixed))
        table = pa.concat_tables([table, _take(items, read)])
    return read


def _lacks_columns(db: DuckDBPyConnection, mapping: MediaMapping) -> bool:
    """Return whether core.media has not every mapped column, which views name: so before the first item."""
    present = {name for name, _ in db.execute(_SQL["columns"]).fetchall()}
    return not present.issuperset(column.column for column in mapping.columns)


def _read_unknown(
    db: DuckDBPyConnection, records: Records, numbers: Sequence[int], read: ReadItems, mapping: MediaMapping
) -> pa.Table:
    """Return the items with these numbers as a table. Register their fields, and give core.media their columns."""
    read.registry = known = read_registry(db)
    present = dict(db.execute(_SQL["columns"]).fetchall())
    own = {*own_columns("media"), *present, *(column.column for column in mapping.columns)}
    tables = []
    # At least once: a table without rows has its columns too.
    for first in range(0, len(numbers) or 1, _ITEMS):
        items, rejected = read_batch_items(records, numbers[first : first + _ITEMS], mapping)
        read.rejected += rejected
        read.registry = register(read.registry, fields_of(records, items, read.registry, mapping), own)
        read.columns = item_columns(mapping, read.registry)
        tables.append(_take(items, read))
    read.registry = register(read.registry, records.unknown_fields, own)
    for statement in alter_columns(read.columns, present):
        db.execute(statement)
    if changed := [one for key, one in read.registry.items() if one != known.get(key)]:
        db.register("registered", table_of_fields(changed))
        db.execute(_SQL["registered"])
    read.lists = sql_lists(read.columns)
    return join_tables(tables, read.columns)


def _take(items: Items, read: ReadItems) -> pa.Table:
    """Return a table of items, which needs a third of their memory, and keep their ids."""
    read.media_ids |= items.media_ids
    return table_of(items, read.columns, read.registry)


def read_registry(db: DuckDBPyConnection) -> Registry:
    """Return the registry of fields, in the order in which they were found. Raises duckdb.Error."""
    fields = [
        Field(resource, path, frozenset(map(FieldType, kinds)), *rest)
        for resource, path, kinds, *rest in db.execute(_SQL["fields"]).fetchall()
    ]
    return {(one.resource, one.path): one for one in fields}


def table_of_fields(fields: Sequence[Field]) -> pa.Table:
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


def write_raw(folder: Path, records: Records, arrived: pa.Table, read: ReadItems) -> int | None:
    """Write the bytes of new and changed items to a part of the raw store; return its number, or None without any."""
    changed = read.numbers("is_changed")
    if not len(changed):
        return None
    numbers = changed.to_pylist()
    pages = list(map(records.page, numbers))
    listed = arrived.take(changed)
    rows = pa.table(
        {
            "landed": listed["seq"],
            "position": listed["position"],
            "account_id": listed["account_id"],
            "surface": listed["surface"],
            "media_id": pa.array([read.media_ids[n] for n in numbers], pa.string()),
            "seen_at": listed["received_at"],
            "run_id": pa.array([page.run_id for page in pages], pa.string()),
            "correlation_id": pa.array([page.correlation_id for page in pages], pa.string()),
            "payload": pa.array([records.raws[n] for n in numbers], pa.binary()),
        }
    )
    write_part(folder, pages[0].seq, rows)
    return pages[0].seq


def find_sighted(read: ReadItems) -> pa.Table:
    """Return the stored rows that the batch listed: their first and last listing in it, and whether they changed."""
    listed = pa.concat_tables([read.known, read.flags.filter(pc.field("row") >= 0)], promote_options="default")
    flags = ("is_missed", "is_removed", "is_changed")
    of_rows = listed.group_by("row", use_threads=False).aggregate(
        [("n", "min"), ("n", "max"), *((name, "any") for name in flags)]
    )
    columns = [of_rows[name] for name in ("row", "n_min", "n_max", *(f"{name}_any" for name in flags))]
    columns[-1] = columns[-1].fill_null(fill_value=False)
    return pa.table(dict(zip(("row", "first", "last", *flags), columns, strict=True)))


def write_items(db: DuckDBPyConnection, read: ReadItems, sighted: pa.Table, mapping: MediaMapping) -> None:
    """Write what became of the items: versions, counts, rows, addresses and sightings. Raises duckdb.Error.

    A statement costs a millisecond, so those without work are left out.
    """
    db.register("sighted", sighted)
    flags, lists = read.flags, dict(read.lists)
    if _any(pc.and_not(flags["is_content"], flags["is_new"])):
        rows = db.execute(_SQL["superseded"]).to_arrow_table().to_pylist()
        db.register("versions", pa.Table.from_pylist([*superseded_versions(rows, read.columns, mapping)]))
        db.execute(_SQL["versions"])
    is_unchanged = _any(pc.invert(flags["is_changed"]))
    if is_unchanged:
        [(differing,)] = db.execute(_SQL["differing"].format(**lists)).fetchall()
        lists["assignments"] = "".join(f'"{name}" = b."{name}", ' for name in differing)
    steps = {
        "addresses": is_unchanged,
        "counts": _any(flags["is_changed"]),
        "returned_events": _any(sighted["is_removed"]),
        "replaced": _any(sighted["is_changed"]),
        "items": _any(flags["is_changed"]),
        "sightings": _any(pc.invert(sighted["is_changed"])),
        "returned": _any(sighted["is_missed"]),
    }
    for name in [name for name, is_needed in steps.items() if is_needed]:
        db.execute(_SQL[name].format(**lists))
    # So that its memory is free before the next batch is read.
    db.unregister("batch")


def _any(flags: pa.ChunkedArray) -> bool:
    return bool(pc.any(flags).as_py())
