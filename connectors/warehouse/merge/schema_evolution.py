"""Makes the tables of items, versions and children match the schemas: adds columns, or decodes all items again.

DuckDB refuses to commit an ALTER of a table to which the same transaction has already written rows, so a merge does
this first.
"""

from collections.abc import Collection, Mapping, Sequence

from connectors.warehouse.merge.decoding_again import create_children, decode_again
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.quoting import quoted
from models.schema.fields import Field, Registry
from models.schema.json_types import JsonType
from models.schema.mapping import Mapping as MediaMapping
from models.schema.table_schemas import TableSchema, history
from models.tables import METADATA

_COLUMNS = """
SELECT table_name, column_name, data_type FROM duckdb_columns()
WHERE schema_name = 'core' AND database_name = current_database()
"""


def _existing(connection: Connection) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for table, column, json_type in connection.db.execute(_COLUMNS).fetchall():
        tables.setdefault(table, {})[column] = json_type
    return tables


def _types_before(field: Field, known: Registry) -> Collection[JsonType]:
    before = known.get((field.resource, field.path))
    return before.json_types.keys() if before is not None else ()


def _in_store(field: Field | None, known: Registry) -> bool:
    """Return whether stored items may have values of the field. They have none if it was found for the first time."""
    return field is None or any(json_type is not JsonType.NULL for json_type in _types_before(field, known))


def _lacks_values(schema: TableSchema, there: Mapping[str, str], known: Registry) -> bool:
    """Return whether stored items may have values for columns that a table lacks, or has with another type."""
    return any(
        there[column.name] != column.type if column.name in there else _in_store(column.field, known)
        for column in schema.columns
    )


def alter(
    connection: Connection,
    mapping: MediaMapping,
    table_schemas: Sequence[TableSchema],
    known: Registry,
    registry: Registry,
) -> Registry:
    """Make the tables match the schemas; `known` is the registry before the change. Return the registry.

    If stored items have values for a column that is new, or whose type widens, all of them are decoded again.
    """
    tables = _existing(connection)
    items, *children = table_schemas
    versions = history(items, mapping)
    lists = [registry[mapping.table, path] for schema in children for path in schema.lists]
    if any(
        _lacks_values(schema, tables.get(schema.table, {}), known) for schema in (items, versions, *children)
    ) or any(_in_store(one, known) for one in lists if JsonType.ROWS not in _types_before(one, known)):
        _, registry = decode_again(connection, mapping, registry)
        return registry
    for schema in (items, versions, *children):
        if schema.table not in tables:
            create_children(connection, schema)
            continue
        for column in schema.columns:
            if column.name not in tables[schema.table]:
                added = f"{quoted(column.name)} {column.type}"
                connection.db.execute(f"ALTER TABLE core.{quoted(schema.table)} ADD COLUMN {added}")
    content = {*METADATA.tables[f"core.{versions.table}"].c.keys(), *(column.name for column in versions.columns)}
    # Columns that are no longer content, for example because of media URLs.
    for name in tables[versions.table].keys() - content:
        connection.db.execute(f"ALTER TABLE core.{versions.table} DROP COLUMN {quoted(name)}")
    return registry
