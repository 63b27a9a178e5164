"""Decodes the raw store again with another mapping, in one transaction and without API requests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.warehouse.ingest.columns import columns_select, counts_of, names_of
from connectors.warehouse.merge.schema_evolution import create_children, insert_children
from connectors.warehouse.merge.stored_items import StoredItems, decode_stored, present, superseded
from connectors.warehouse.raw.parts import check_parts, live_parts
from connectors.warehouse.runs.closed_scans import forget_order
from connectors.warehouse.schema.field_registry import (
    own_names,
    read_mapping,
    read_registry,
    write_mapping,
    write_registry,
)
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import ITEM_TABLES, TABLES, Table
from connectors.warehouse.storage.limits import on_all_cores
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.fields import unique
from models.mapping import Mapping
from models.schema.fields import Field, OwnNames, Registry
from models.schema.json_types import JsonType
from models.schema.table_schemas import ColumnSchema, TableSchema, history, table_schemas

_SQL = statements(__name__)

# The most items that can be joined with their counts in the memory of a run.
_JOINED_AT_ONCE = 250_000

_OF_A_MAPPING = {JsonType.SHADOWED, JsonType.UNREADABLE}

# Columns that are not decoded from the payload: they are kept, or computed from the whole payload.
_KEY = "m.account_id, m.surface, m.media_id, m.raw_landed"
_LIFE = (
    f"{_KEY}, h.payload_hash, m.first_seen_at, m.written_at, m.written_seq, m.changed_at, m.content_changed_at,"
    " m.removed_at, m.removal, m.run_seq, m.first_run_seq"
)
_PERIOD = f"{_KEY}, m.valid_from, m.valid_to, m.run_seq"


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """Counts of a rebuild: items, their columns, child tables."""

    items: int
    columns: int
    child_tables: int


def _renamed(registry: Registry, own: OwnNames) -> Registry:
    """Return the registry with new names for fields whose name the mapping uses, and without facts about a mapping.

    These are SHADOWED and UNREADABLE, which the new mapping determines again.
    """
    taken: dict[str, set[str]] = {resource: set(names) for resource, names in own.columns.items()}
    fields: dict[tuple[str, str], Field] = {}
    for key, field in sorted(registry.items(), key=lambda item: (item[0][0], item[1].ordinal)):
        names = taken.setdefault(field.resource, set())
        name = unique(field.name, names)
        names.add(name)
        kinds = {kind: at for kind, at in field.json_types.items() if kind not in _OF_A_MAPPING}
        fields[key] = replace(field, name=name, json_types=kinds)
    return fields


def _new_table(connection: Connection, table: Table, schema: TableSchema) -> str:
    """Rename a table and create it empty, with the columns of its schema; return the old table's new name."""
    before = f"{table.name}_before"
    connection.db.execute(f"ALTER TABLE {table.name} RENAME TO {before.removeprefix('core.')}")
    connection.db.execute(table.create)
    for column in schema.columns:
        if column.name not in table.types:
            connection.db.execute(f"ALTER TABLE {table.name} ADD COLUMN {quoted(column.name)} {column.type}")
    return before


def _decode_again(
    connection: Connection,
    mapping: Mapping,
    registry: Registry,
    known: Registry,
    stored: StoredItems,
    schema: TableSchema,
    kept: str,
    children: Sequence[TableSchema] = (),
) -> tuple[int, Registry]:
    """Decode the payloads of a table into a new table, and its children.

    `schema` follows from `registry`, `kept` are the columns that are copied from the old table. Return the number of
    rows, and the registry `known` with all fields and types of the payloads. If it has one that `registry` lacks, the
    table is left as it was, and its children are incomplete.
    """
    table = TABLES[stored.table]
    before = _new_table(connection, table, schema)
    rows = 0
    for batch in decode_stored(connection, replace(stored, table=before), mapping, known, own_names(mapping)):
        cells = batch.cells
        known = cells.registry
        if _types(known) != _types(registry):
            continue
        columns = columns_select(schema, cells.layout.media.cells)
        ((written,),) = connection.db.execute(
            f"""
INSERT INTO {table.name} BY NAME
SELECT {kept}, c.* EXCLUDE (_order_key)
FROM (SELECT order_key AS _order_key, overflow{columns} FROM {cells.media}) AS c
JOIN {before} AS m ON m.rowid = c._order_key JOIN {batch.hashes} AS h ON h.order_key = c._order_key
ORDER BY c._order_key
"""  # noqa: S608 - quoted names
        ).fetchall()
        rows += written
        insert_children(connection, children, cells, before)
    if _types(known) == _types(registry):
        connection.db.execute(f"DROP TABLE {before}")
    else:
        connection.db.execute(f"DROP TABLE {table.name}")
        connection.db.execute(f"ALTER TABLE {before} RENAME TO {table.name.removeprefix('core.')}")
    return rows, known


def _recount(connection: Connection, table: str, metrics: Sequence[ColumnSchema]) -> None:
    """Append the counts as they are decoded now, if they differ from the last observed ones."""
    names = {"items": f"core.{table}", "metrics": f"core.{table}_metrics"}
    lists = {"metric_names": names_of(metrics), "metric_values": counts_of(metrics, "m")}
    items = int(value(connection.db, f"SELECT count(*) FROM {names['items']}"))  # noqa: S608 - a declared name
    parts = 1 + items // _JOINED_AT_ONCE
    connection.db.execute(_SQL["recounted"].format(**names))
    for part in range(parts):
        some = f"hash(account_id) % {parts} = {part}"
        connection.db.execute(_SQL["recount"].format(**names, **lists, some=some))
    connection.db.execute(_SQL["append"].format(**names))


def rebuild_stored(connection: Connection, mapping: Mapping) -> RebuildResult:
    """Decode all stored payloads with the mapping, in the open transaction: items, history, children, current counts.

    Ids, the times at which versions begin and end, and counts of the past do not change. What landed must be merged
    before. Raises WarehouseUnusable when a part of the raw store is damaged or lacks a payload.
    """
    check_parts(connection, live_parts(connection))
    known = read_registry(connection)
    mappings = [mapping.of(table) for table in ITEM_TABLES]
    registry = known
    for each in mappings:
        registry = _renamed(registry, own_names(each))
    schemas: list[Sequence[TableSchema]] = []
    items = 0
    for each in mappings:
        rows, found = _rebuild(connection, each, registry)
        # Usually the registry has all fields and types, and one pass over the payloads is enough.
        if _types(found) != _types(registry):
            registry = found
            rows, found = _rebuild(connection, each, registry)
        schemas.append(table_schemas(each, registry))
        items += rows
    children = {schema.table for _, *children in schemas for schema in children}
    before = {field.table for field in known.values() if field.table is not None and field.resource in ITEM_TABLES}
    for name in before - children:
        connection.db.execute(f"DROP TABLE IF EXISTS core.{quoted(name)}")
    if _times_and_ids(mapping) != _times_and_ids(read_mapping(connection)):
        forget_order(connection)
    write_registry(connection, registry, mapping)
    write_mapping(connection, mapping)
    return RebuildResult(items, sum(len(found[0].columns) for found in schemas), len(children))


def _types(registry: Registry) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return what determines the tables. Times are left out: they depend on which items were rewritten."""
    return {key: (field.name, field.table, frozenset(field.json_types)) for key, field in registry.items()}


def _rebuild(connection: Connection, mapping: Mapping, registry: Registry) -> tuple[int, Registry]:
    """Rebuild a table of items with this registry; return the number of its items, and a registry.

    The tables are complete if the returned registry has the same fields and types as this one. Otherwise it has those
    of all payloads.
    """
    schema, *children = table_schemas(mapping, registry)
    for child in children:
        create_children(connection, child)
    stored, versions = present(mapping.table), superseded(mapping.table)
    items, known = _decode_again(connection, mapping, registry, registry, stored, schema, _LIFE, children)
    of_versions = history(schema, mapping)
    _, known = _decode_again(connection, mapping, registry, known, versions, of_versions, _PERIOD)
    if _types(known) == _types(registry):
        with on_all_cores(connection.db):
            _recount(connection, mapping.table, schema.metrics)
    return items, known


def _times_and_ids(mapping: Mapping) -> tuple[object, ...]:
    return mapping.media_id, *(column for column in mapping.columns if column.column == "published_at")
