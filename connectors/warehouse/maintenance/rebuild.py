"""Decodes the raw store again with another mapping, in one transaction and without API requests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.warehouse.ingest.columns import counts_of, names_of
from connectors.warehouse.merge.decoding_again import decode_again
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
from connectors.warehouse.storage.limits import on_all_cores
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.schema.fields import Field, OwnNames, Registry
from models.schema.json_types import JsonType
from models.schema.mapping import Mapping
from models.schema.naming import unique
from models.schema.table_schemas import Metric, TableSchema, table_schemas
from models.tables import ITEM_TABLES

_SQL = statements(__name__)

# The most items that can be joined with their counts in the memory of a run.
_JOINED_AT_ONCE = 250_000

_OF_A_MAPPING = {JsonType.SHADOWED, JsonType.UNREADABLE}


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


def _recount(connection: Connection, table: str, metrics: tuple[Metric, ...]) -> None:
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
    schemas = list[Sequence[TableSchema]]()
    items = 0
    for each in mappings:
        rows, registry = decode_again(connection, each, registry)
        schemas.append(table_schemas(each, registry))
        with on_all_cores(connection.db):
            _recount(connection, each.table, schemas[-1][0].metrics)
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


def _times_and_ids(mapping: Mapping) -> tuple[object, ...]:
    return mapping.media_id, *(column for column in mapping.columns if column.column == "published_at")
