"""The field registry and the current mapping, as stored in the warehouse."""

import json
from collections.abc import Iterator
from datetime import datetime

from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import ITEM_TABLES, TABLES
from models.mapping import BUILT_IN, READING_TYPES, Mapping
from models.schema.fields import AND_MORE, Field, OwnNames, Registry
from models.schema.json_types import JsonType
from models.schema.table_schemas import CHILDREN, child_table
from models.views import own_columns, views


def read_mapping(connection: Connection) -> Mapping:
    """Return the mapping with which the rows of media were decoded; `of` returns that of another table."""
    found = connection.db.execute("SELECT mapping FROM ops.mapping").fetchone()
    return BUILT_IN if found is None else Mapping.from_json(found[0])


def write_mapping(connection: Connection, mapping: Mapping) -> None:
    """Store the mapping with which the rows of media are decoded from now on."""
    connection.db.execute("DELETE FROM ops.mapping")
    append(connection, "ops.mapping", [{"mapping": json.loads(mapping.to_json())}])
    # The digest of a record's content depends on the mapping.
    connection.db.execute("UPDATE core.quarantine SET digest = NULL")


def own_names(mapping: Mapping) -> OwnNames:
    """Return the reserved names, which no inferred field of the mapping's table, or of its children, may have."""
    names = {name.partition(".")[2] for name in TABLES} | views().keys()
    items, children = own_columns(mapping.table), own_columns(CHILDREN)
    items.update(TABLES[f"core.{mapping.table}"].types, (column.column for column in mapping.columns))
    children.update(column.column for column in mapping.child_columns)
    return OwnNames({mapping.table: items, CHILDREN: children}, names, mapping.children)


_INFERRED = "SELECT resource, path, name, ordinal, json_types, child_table FROM core.fields WHERE ordinal IS NOT NULL"


def read_registry(connection: Connection) -> Registry:
    """Return the field registry of all items and their children."""
    fields = (
        Field(
            resource,
            path,
            name,
            ordinal,
            {JsonType(json_type): datetime.fromisoformat(at) for json_type, at in json.loads(json_types).items()},
            child_table,
        )
        for resource, path, name, ordinal, json_types, child_table in connection.db.execute(_INFERRED).fetchall()
    )
    return {(field.resource, field.path): field for field in fields}


def write_registry(connection: Connection, registry: Registry, mapping: Mapping) -> None:
    """Store the field registry of all items and their children; `mapping` is that of media."""
    connection.db.execute("DELETE FROM core.fields WHERE ordinal IS NOT NULL")
    append(connection, "core.fields", list(_rows(registry, mapping)))


# JSON types that never fill a mapped column; the fields of an object have their own columns.
_NOTHING = {JsonType.NULL, JsonType.OBJECT, JsonType.EMPTY_LIST, JsonType.ROWS}


def _rows(registry: Registry, mapping: Mapping) -> Iterator[dict[str, object]]:
    mapped = [(CHILDREN, mapping.child_columns), *((table, mapping.of(table).columns) for table in ITEM_TABLES)]
    read_into = {
        (resource, path): (column.column, READING_TYPES[column.reading])
        for resource, columns in mapped
        for column in reversed(columns)
        for path in column.paths
    }
    read_into |= {(table, path): ("media_id", "VARCHAR") for table in ITEM_TABLES for path in mapping.media_id}
    for key, field in sorted(registry.items(), key=lambda item: (item[0][0], item[1].ordinal)):
        column: str | None = field.name if field.type is not None else None
        json_type = field.type
        if field.path == AND_MORE:
            column = json_type = None
        elif JsonType.ROWS in field.json_types and field.resource in ITEM_TABLES and json_type is None:
            column = child_table(field, mapping.of(field.resource))
            json_type = None if column is None else "ROWS"
        elif (
            key in read_into
            and JsonType.SHADOWED not in field.json_types
            and JsonType.UNREADABLE not in field.json_types
        ):
            column, json_type = read_into[key] if set(field.json_types) - _NOTHING else (None, None)
        json_types = json.dumps({json_type.value: at.isoformat() for json_type, at in sorted(field.json_types.items())})
        yield {
            "resource": field.resource,
            "path": field.path,
            "column_name": column,
            "type": json_type,
            "first_seen_at": field.first_seen_at,
            "last_type_change_at": field.last_type_change_at,
            "ordinal": field.ordinal,
            "name": field.name,
            "child_table": field.table,
            "json_types": json_types,
        }
