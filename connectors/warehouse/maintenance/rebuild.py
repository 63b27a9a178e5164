"""Reads items and their versions again from the raw store, and the quarantine, with a mapping.

Columns, versions and current counts are what the mapping says. Sightings, events, times, ids and past counts stay.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection
from xxhash import xxh3_64_intdigest

from connectors.warehouse.maintenance.stored import Quarantine, import_quarantine, read_quarantine, read_stored
from connectors.warehouse.merge.columns import (
    Column,
    alter_columns,
    fields_of,
    item_columns,
    list_changed_counts,
    table_of,
)
from connectors.warehouse.merge.items import read_registry, write_fields
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.checkpoint import PROOFS
from models.item import CONTENT_RULE, Items
from models.mapping import BUILT_IN, Registry, register, to_keys
from models.mapping import Mapping as MediaMapping
from models.views import MEDIA, own_columns

_SQL = statements(__name__)


@dataclass(slots=True)
class PathCounts:
    """How many of the `items` have a value at each path of a mapped column; an object is no value."""

    counts: dict[str, int]
    items: int = 0

    def add(self, rows: pa.Table, items: Items) -> None:
        """Count the items among some rows, and not versions."""
        for number in pc.indices_nonzero(rows["is_item"]).to_pylist():
            item = items.read[number]
            self.items += 1
            for path in self.counts.keys() & {*item.taken, *item.values, *item.counts}:
                self.counts[path] += 1


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did: the paths of items, the columns that these fill, and records of the quarantine.

    `imported` became rows, `outdated` were deleted because their item was seen later, and `quarantined` remain.
    """

    paths: PathCounts
    columns: int
    imported: int
    outdated: int
    quarantined: int


def rebuild(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, *, take: Callable[[int], int], force: bool
) -> Rebuilt:
    """Read everything again with this mapping, in the open transaction. All that landed must be merged before.

    `take` takes that many landing numbers, and returns the number before the first of them. Raises WarehouseUnusable if
    a part of the raw store is damaged or lacks an item, if an item has no id now, or, unless `force`, if a mapped
    column would become empty. Then the caller rolls back.
    """
    before = read_warehouse(db).mapping or mapping
    quarantine = read_quarantine(db, mapping)
    paths = _read_again(db, raw, mapping, quarantine, force=force)
    if order_of(before) != order_of(mapping):
        db.execute(_SQL["order"], [PROOFS])
    imported, outdated = import_quarantine(db, raw, mapping, quarantine, take)
    [(left,)] = db.execute("SELECT count(*) FROM core.quarantine").fetchall()
    return Rebuilt(paths, len(item_columns(mapping, read_registry(db))), imported, outdated, left)


def recompute_hashes(db: DuckDBPyConnection, raw: Path) -> None:
    """Read everything again with the mapping in force, because the hashes are of another CONTENT_RULE.

    In the open transaction; nothing is to be merged before it. Raises WarehouseUnusable as `rebuild` does.
    """
    mapping = read_warehouse(db).mapping or BUILT_IN
    _read_again(db, raw, mapping, read_quarantine(db, mapping), force=True)


def count_paths(db: DuckDBPyConnection, raw: Path, mapping: MediaMapping) -> PathCounts:
    """Return how many items have a value at each path of the mapping, without a change. Raises as `rebuild` does."""
    paths = _no_paths(mapping)
    for rows, items in read_stored(db, raw, mapping):
        paths.add(rows, items)
    return paths


def explain_paths(mapping: MediaMapping, paths: PathCounts) -> Sequence[str]:
    """Return a line for each path of a person, and for each path that any item has."""
    built_in = {path for column in BUILT_IN.columns for path in column.paths}
    items = f"{paths.items:,} item{'' if paths.items == 1 else 's'}"
    return [
        f"{column.column}: {paths.counts[path]:,} of {items} have {_shown(path)}"
        for column in mapping.columns
        for path in column.paths
        if paths.counts[path] or path not in built_in
    ]


def order_of(mapping: MediaMapping) -> tuple[object, ...]:
    """Return what of a mapping decides in which order posts are found: their ids and times."""
    return mapping.media_id, *(column for column in mapping.columns if column.column == "published_at")


def _no_paths(mapping: MediaMapping) -> PathCounts:
    return PathCounts({path: 0 for column in mapping.columns for path in column.paths})


def _shown(path: str) -> str:
    """Return a path as a person writes it."""
    return ".".join(("$", *to_keys(path)))


def _read_again(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, quarantine: Quarantine, *, force: bool
) -> PathCounts:
    """Write columns, versions and current counts as the mapping reads them."""
    before, known = read_warehouse(db).mapping or mapping, read_registry(db)
    present = {name: (kind, is_own) for name, kind, is_own in db.execute(_SQL["present"]).fetchall()}
    own = own_columns(MEDIA) | {name for name, (_, is_own) in present.items() if is_own}
    own |= {column.column for column in mapping.columns}
    mapped = {path for column in mapping.columns for path in column.paths}
    # A field keeps its column, unless its path or its column is mapped now. What lists have is found again.
    registry: Registry = {
        key: one
        for key, one in known.items()
        if not one.kinds or (one.resource == MEDIA and one.path not in mapped and one.column_name not in own)
    }
    paths = _no_paths(mapping)
    db.execute(_SQL["items"])
    for rows, items in read_stored(db, raw, mapping):
        paths.add(rows, items)
        registry = register(registry, fields_of(items, rows["seen_at"].to_pylist().__getitem__, registry, mapping), own)
        _stage(db, rows, items, item_columns(mapping, registry))
    rejected, quarantined = quarantine
    fields = fields_of(quarantined, lambda n: rejected[n]["seen_at"], registry, mapping)
    registry = register(registry, fields, own)
    columns = item_columns(mapping, registry)
    _add_columns(db, "temp.items", columns)
    if not force:
        _refuse_empty(db, mapping, present, paths)
    changed_counts = list_changed_counts(columns, item_columns(before, known))
    db.execute(_SQL["recounted"].format(changed_counts=changed_counts))
    # All columns are there before the first row is written: DuckDB can replay only that after a kill.
    wanted = {column.name: column.type for column in columns}
    for name, (kind, is_own) in present.items():
        if not is_own and wanted.get(name) != kind:
            db.execute(f"ALTER TABLE core.media DROP COLUMN {quoted(name)}")
    _add_columns(db, "core.media", columns)
    [(last,)] = db.execute("SELECT coalesce(max(rowid), -1) FROM core.media").fetchall()
    db.execute(_SQL["counts"])
    db.execute(_SQL["new_items"])
    # Rows that a transaction inserts have higher numbers than all others.
    db.execute("DELETE FROM core.media WHERE rowid <= ?", [last])
    db.execute("DELETE FROM core.fields")
    write_fields(db, {}, registry)
    for name in ("versions", "done"):
        db.execute(_SQL[name])
    db.execute(_SQL["in_force"], [mapping.to_json(), CONTENT_RULE])
    return paths


def _stage(db: DuckDBPyConnection, rows: pa.Table, items: Items, columns: Sequence[Column]) -> None:
    """Write items and versions to temp.items."""
    _add_columns(db, "temp.items", columns)
    is_version = rows["is_version"].to_pylist()
    contents = [item.content.decode() if is_version[n] else None for n, item in items.read.items()]
    hashes = map(xxh3_64_intdigest, rows["payload"].to_pylist())
    batch = (
        table_of(items, columns)
        .append_column("landed", rows["landed"])
        .append_column("position", rows["position"])
        .append_column("payload_hash", pa.array(hashes, pa.uint64()))
        .append_column("content", pa.array(contents, pa.string()))
    )
    db.register("batch", batch)
    db.execute(_SQL["more_items"])
    db.unregister("batch")


def _refuse_empty(
    db: DuckDBPyConnection, mapping: MediaMapping, present: Mapping[str, object], paths: PathCounts
) -> None:
    """Raise WarehouseUnusable if a mapped column that has values would have none."""
    columns = [column for column in mapping.columns if column.column in present]
    are_emptied = [f"count(m.{name}) > 0 AND count(i.{name}) = 0" for name in (quoted(one.column) for one in columns)]
    [found] = db.execute(_SQL["emptied"].format(are_emptied=", ".join(are_emptied))).fetchall()
    for column in compress(columns, found):
        have = ", ".join(f"{paths.counts[path]:,} have {_shown(path)}" for path in column.paths)
        raise WarehouseUnusable(
            f"With this mapping the column {column.column} would become empty: of {paths.items:,} items {have}."
            " Nothing was changed. Fix: correct [mapping] in gramhouse.toml, or `gramhouse rebuild --force`."
        )


def _add_columns(db: DuckDBPyConnection, table: str, columns: Sequence[Column]) -> None:
    """Give a table of items the columns and types that it lacks."""
    present = {name: kind for name, kind, *_ in db.execute(f"DESCRIBE {table}").fetchall()}
    for statement in alter_columns(columns, present, table):
        db.execute(statement)
