"""Reads items and their versions again from the raw store, and the quarantine, with a mapping.

Columns, versions and current counts are what the mapping says. Sightings, events, times, ids and past counts stay. The
raw store is read twice: the fields and types of all items must be known before the first row is written.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection
from xxhash import xxh3_64_intdigest

from connectors.warehouse.maintenance.mapped_paths import PathCounts, paths_in, shown
from connectors.warehouse.maintenance.quarantined import Quarantine, import_quarantine, read_quarantine
from connectors.warehouse.maintenance.stored import Stored, read_stored
from connectors.warehouse.merge.columns import Column, item_columns, observations, sql_lists, table_of
from connectors.warehouse.merge.items import read_registry, table_of_fields
from connectors.warehouse.merge.registry import Registry, child_table, register
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_mapping
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.fields import FieldType
from models.incremental import PROOFS
from models.item import CONTENT_RULE
from models.mapping import BUILT_IN, to_keys
from models.mapping import Mapping as MediaMapping
from models.views import MEDIA, own_columns

_SQL = statements(__name__)


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
    before = read_mapping(db) or mapping
    quarantine = read_quarantine(db, mapping)
    paths = _read_again(db, raw, mapping, quarantine, force=force)
    if order_of(before) != order_of(mapping):
        db.execute(_SQL["order"], [PROOFS])
    imported, outdated = import_quarantine(db, raw, mapping, quarantine, take)
    [(left,)] = db.execute("SELECT count(*) FROM core.quarantine").fetchall()
    columns = item_columns(mapping, read_registry(db))
    return Rebuilt(paths, len(columns), imported, outdated, left)


def recompute_hashes(db: DuckDBPyConnection, raw: Path) -> None:
    """Read everything again with the mapping in force, because the hashes are of another CONTENT_RULE.

    In the open transaction; nothing is to be merged before it. Raises WarehouseUnusable as `rebuild` does.
    """
    mapping = read_mapping(db) or BUILT_IN
    _read_again(db, raw, mapping, read_quarantine(db, mapping), force=True)


def count_paths(db: DuckDBPyConnection, raw: Path, mapping: MediaMapping) -> PathCounts:
    """Return how many items have a value at each path of the mapping, without a change. Raises as `rebuild` does."""
    return _look(db, raw, mapping, read_registry(db), set())[1]


def order_of(mapping: MediaMapping) -> tuple[object, ...]:
    """Return what of a mapping decides in which order posts are found: their ids and times."""
    return mapping.media_id, *(column for column in mapping.columns if column.column == "published_at")


def _read_again(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, quarantine: Quarantine, *, force: bool
) -> PathCounts:
    """Write columns, versions and current counts as the mapping reads them."""
    before, known = read_mapping(db) or mapping, read_registry(db)
    present = {name: (kind, is_own) for name, kind, is_own in db.execute(_SQL["present"]).fetchall()}
    own = own_columns(MEDIA) | {name for name, (_, is_own) in present.items() if is_own}
    own |= {column.column for column in mapping.columns}
    kept = known if before == mapping else _drop_mapped(known, mapping, own)
    registry, paths = _look(db, raw, mapping, kept, own)
    of_quarantine = observations(quarantine.records, quarantine.items, registry, mapping)
    registry = _drop_old_lists(register(registry, of_quarantine, own), mapping)
    if not force:
        _refuse_empty(db, mapping, present, paths)
    columns = item_columns(mapping, registry)
    _stage(db, raw, mapping, registry, columns)
    _recount(db, columns, item_columns(before, known))
    _alter(db, present, {column.name: column.type for column in columns})
    [(last,)] = db.execute("SELECT coalesce(max(rowid), -1) FROM core.media").fetchall()
    db.register("registered", table_of_fields(list(registry.values())))
    db.execute(_SQL["counts"])
    db.execute(_SQL["new_items"])
    # Rows that a transaction inserts have higher numbers than all others.
    db.execute("DELETE FROM core.media WHERE rowid <= ?", [last])
    for name in ("versions", "new_versions", "fields", "done"):
        db.execute(_SQL[name])
    db.execute(_SQL["in_force"], [mapping.to_json(), CONTENT_RULE])
    db.unregister("registered")
    return paths


def _drop_mapped(known: Registry, mapping: MediaMapping, own: set[str]) -> Registry:
    """Return the fields whose path and column no mapped column has; the others are found again if items have them."""
    mapped = {path for column in mapping.columns for path in column.paths}
    kept = {
        (resource, path): field
        for (resource, path), field in known.items()
        if resource != MEDIA or (path not in mapped and field.column_name not in own)
    }
    of_media = [key for key in kept if key[0] == MEDIA]
    return kept | {key: replace(kept[key], ordinal=ordinal) for ordinal, key in enumerate(of_media)}


def _drop_old_lists(registry: Registry, mapping: MediaMapping) -> Registry:
    """Leave out the members of lists that are not read into their own view any more."""
    lists = {
        child_table(field.path, mapping)
        for field in registry.values()
        if field.resource == MEDIA and FieldType.LIST in field.kinds
    }
    return {
        (resource, path): field
        for (resource, path), field in registry.items()
        if not resource.startswith(f"{MEDIA}_") or resource == "media_page" or resource in lists
    }


def _look(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, registry: Registry, own: set[str]
) -> tuple[Registry, PathCounts]:
    """Return the registry with the fields of items and versions as they are with this mapping, and what items have."""
    paths = {path: to_keys(path) for column in mapping.columns for path in column.paths}
    number, counts, filled = 0, Counter(dict.fromkeys(paths, 0)), set[str]()
    for rows, records, items in read_stored(db, raw, mapping):
        registry = register(registry, observations(records, items, registry, mapping), own)
        of_items = {*pc.indices_nonzero(rows["is_item"]).to_pylist()}
        number += len(of_items)
        for n in of_items:
            counts.update(paths_in(records.raws[n], paths))
        values = (items.columns | items.counts).items()
        filled.update(name for name, by_number in values if not of_items.isdisjoint(by_number))
    return registry, PathCounts(number, dict(counts), frozenset(filled))


def _refuse_empty(db: DuckDBPyConnection, mapping: MediaMapping, present: Collection[str], paths: PathCounts) -> None:
    """Raise WarehouseUnusable if a mapped column that has values would have none."""
    for column in mapping.columns:
        if column.column not in present or column.column in paths.columns:
            continue
        query = f"FROM core.media WHERE {quoted(column.column)} IS NOT NULL LIMIT 1"
        if db.execute(query).fetchall():
            have = ", ".join(f"{paths.counts[path]:,} have {shown(path)}" for path in column.paths)
            raise WarehouseUnusable(
                f"With this mapping the column {column.column} would become empty: of {paths.items:,} items {have}."
                " Nothing was changed. Fix: correct [mapping] in gramhouse.toml, or `gramhouse rebuild --force`."
            )


def _stage(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, registry: Registry, columns: Sequence[Column]
) -> None:
    """Write items and versions to temp.items."""
    typed = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
    db.execute(_SQL["items"].format(columns=typed))
    lists = sql_lists(columns)
    for stored in read_stored(db, raw, mapping):
        db.register("batch", _batch(stored, columns, registry))
        db.execute(_SQL["more_items"].format(**lists))
    db.unregister("batch")


def _batch(stored: Stored, columns: Sequence[Column], registry: Registry) -> pa.Table:
    rows, records, items = stored
    is_version = rows["is_version"].to_pylist()
    contents = [content.decode() if is_version[n] else None for n, content in items.contents.items()]
    return (
        table_of(items, columns, registry)
        .append_column("landed", rows["landed"])
        .append_column("position", rows["position"])
        .append_column("payload_hash", pa.array(map(xxh3_64_intdigest, records.raws), pa.uint64()))
        .append_column("content", pa.array(contents, pa.string()))
    )


def _recount(db: DuckDBPyConnection, columns: Sequence[Column], columns_before: Sequence[Column]) -> None:
    """Write the counts that differ from those of the stored rows to temp.recounted."""
    known = {column.name for column in columns_before if column.is_count}
    names = [column.name for column in columns if column.is_count]
    before = ", ".join(f"'{name}': {f'stored.{quoted(name)}' if name in known else 'NULL::BIGINT'}" for name in names)
    lists = {**sql_lists(columns), "stored_counts": sql_lists(columns_before)["stored_counts"], "before": before}
    db.execute(_SQL["recounted"].format(**lists))


def _alter(db: DuckDBPyConnection, present: Mapping[str, tuple[str, bool]], wanted: Mapping[str, str]) -> None:
    """Give core.media the wanted columns, besides its own, whose values are written afterwards."""
    for name, (kind, is_own) in present.items():
        if not is_own and wanted.get(name) != kind:
            db.execute(f"ALTER TABLE core.media DROP COLUMN {quoted(name)}")
    for name, kind in wanted.items():
        if name not in present or present[name][0] != kind:
            db.execute(f"ALTER TABLE core.media ADD COLUMN {quoted(name)} {kind}")
