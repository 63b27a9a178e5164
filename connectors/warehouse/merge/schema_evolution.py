"""Alters the tables of items, versions and children to match the schemas: adds, widens and fills columns.

DuckDB refuses to commit an ALTER of a table to which the same transaction has already written rows, so a merge does
this first.
"""

from collections.abc import Sequence
from dataclasses import replace

from connectors.warehouse.ingest.cells import RegisteredCells
from connectors.warehouse.ingest.columns import columns_select
from connectors.warehouse.merge.comparing import is_compared
from connectors.warehouse.merge.stored_items import StoredItems, decode_stored, present, superseded
from connectors.warehouse.schema.field_registry import own_names
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import TABLES
from connectors.warehouse.storage.quoting import quoted
from models.mapping import Mapping as MediaMapping
from models.schema.fields import Field, Registry
from models.schema.json_types import JsonType
from models.schema.table_schemas import ColumnSchema, TableSchema, history

_COLUMNS = """
SELECT table_name, column_name, data_type FROM duckdb_columns()
WHERE schema_name = 'core' AND database_name = current_database()
"""

_SAME_CHILD = (
    "t.account_id = m.account_id AND t.surface = m.surface AND t.media_id = m.media_id AND t.position = f.position"
)


def _existing(connection: Connection) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for table, column, json_type in connection.db.execute(_COLUMNS).fetchall():
        tables.setdefault(table, {})[column] = json_type
    return tables


def _in_store(field: Field | None, known: Registry) -> bool:
    """Return whether stored items may have values of the field. They have none if it was found for the first time."""
    if field is None:
        return True
    before = known.get((field.resource, field.path))
    return before is not None and any(json_type is not JsonType.NULL for json_type in before.json_types)


def _alter_columns(connection: Connection, schema: TableSchema, there: dict[str, str], known: Registry) -> TableSchema:
    """Add and widen columns; return the schema with only those that must be filled from stored items."""
    table = f"core.{quoted(schema.table)}"
    filled: list[ColumnSchema] = []
    for column in schema.columns:
        name = quoted(column.name)
        if column.name not in there:
            connection.db.execute(f"ALTER TABLE {table} ADD COLUMN {name} {column.type}")
            if _in_store(column.field, known):
                filled.append(column)
        elif there[column.name] != column.type:
            # Set to NULL, and filled later. An ALTER whose USING calls a function would make the file unusable after a
            # kill: DuckDB cannot find functions when it replays its log.
            connection.db.execute(f"ALTER TABLE {table} ALTER COLUMN {name} SET DATA TYPE {column.type} USING (NULL)")
            filled.append(column)
    return replace(schema, columns=tuple(filled))


def create_children(connection: Connection, schema: TableSchema) -> None:
    """Create a child table, or replace it by an empty one."""
    columns = "".join(f", {quoted(column.name)} {column.type}" for column in schema.columns)
    connection.db.execute(
        f"CREATE OR REPLACE TABLE core.{quoted(schema.table)} (account_id VARCHAR NOT NULL, surface VARCHAR NOT NULL,"
        f" media_id VARCHAR NOT NULL, position INTEGER NOT NULL, run_seq BIGINT{columns})"
    )


def insert_children(
    connection: Connection, table_schemas: Sequence[TableSchema], cells: RegisteredCells, items: str
) -> None:
    """Append the children of decoded items, whose rows are in the table `items`."""
    db = connection.db
    for schema in table_schemas:
        if schema.table in cells.layout.children:
            db.execute(
                f"INSERT INTO core.{quoted(schema.table)} BY NAME"  # noqa: S608 - quoted
                f" SELECT m.account_id, m.surface, m.media_id, m.run_seq, c.* EXCLUDE (_order_key)"
                f" FROM ({cells.children_query(schema)}) AS c JOIN {items} AS m ON m.rowid = c._order_key"
                " ORDER BY m.account_id, m.surface, m.media_id, c.position"
            )


def _fill(
    connection: Connection,
    mapping: MediaMapping,
    registry: Registry,
    stored: StoredItems,
    *schemas: TableSchema,
    replaced: Sequence[TableSchema] = (),
) -> None:
    """Fill the columns of these schemas, and no others, from the raw store: those of items or of their children.

    The rows of the items are in the table `stored`. All rows of the child tables in `replaced` are replaced.
    """
    db = connection.db
    filled = {f"temp.{quoted(f'filled_{schema.table}')}": schema for schema in schemas if schema.columns}
    if not (filled or replaced):
        return
    for table, schema in filled.items():
        position = ", position INTEGER" if schema.lists else ""
        columns = "".join(f", {quoted(column.name)} {column.type}" for column in schema.columns)
        db.execute(f"CREATE OR REPLACE TEMP TABLE {table} (_order_key BIGINT{position}{columns})")
    for schema in replaced:
        db.execute(f"DELETE FROM core.{quoted(schema.table)}")  # noqa: S608 - quoted
    for batch in decode_stored(connection, stored, mapping, registry, own_names(mapping)):
        for table, schema in filled.items():
            db.execute(f"INSERT INTO {table} BY NAME {_rows(schema, batch.cells)}")
        insert_children(connection, replaced, batch.cells, stored.table)
    for table, schema in filled.items():
        names = ", ".join(f"{quoted(column.name)} = f.{quoted(column.name)}" for column in schema.columns)
        found = f"{table} AS f JOIN {stored.table} AS m ON m.rowid = f._order_key"
        is_same = _SAME_CHILD if schema.lists else "t.rowid = m.rowid"
        db.execute(f"UPDATE core.{quoted(schema.table)} AS t SET {names} FROM {found} WHERE {is_same}")  # noqa: S608
        db.execute(f"DROP TABLE {table}")


def _rows(schema: TableSchema, cells: RegisteredCells) -> str:
    """Return a query for the decoded rows of a table of items or of children."""
    if schema.lists:
        return cells.children_query(schema)
    return f"SELECT order_key AS _order_key{columns_select(schema, cells.layout.media.cells)} FROM {cells.media}"  # noqa: S608


def alter(
    connection: Connection,
    mapping: MediaMapping,
    table_schemas: Sequence[TableSchema],
    known: Registry,
    registry: Registry,
) -> None:
    """Alter the tables to match the schemas, and fill columns; `known` is the registry before the change."""
    tables = _existing(connection)
    items, *children = table_schemas
    versions = history(items, mapping)
    of_items = _alter_columns(connection, items, tables[items.table], known)
    of_versions = _alter_columns(connection, versions, tables[versions.table], known)
    content = {*TABLES[f"core.{versions.table}"].types, *(column.name for column in versions.columns)}
    # Columns that are no longer content, for example because of media URLs.
    for name in tables[versions.table].keys() - content:
        connection.db.execute(f"ALTER TABLE core.{versions.table} DROP COLUMN {quoted(name)}")
    of_children: list[TableSchema] = []
    replaced: list[TableSchema] = []
    for schema in children:
        if schema.table not in tables:
            # No stored item has a list of objects there.
            create_children(connection, schema)
            continue
        altered = _alter_columns(connection, schema, tables[schema.table], known)
        if altered.columns and not is_compared(schema, mapping):
            # The raw store may have more or fewer children of an item than the table.
            replaced.append(schema)
        elif schema.lists:
            of_children.append(altered)
    # Items last: their rowids, by which children are found, may change.
    _fill(connection, mapping, registry, present(mapping.table), *of_children, of_items, replaced=replaced)
    _fill(connection, mapping, registry, superseded(mapping.table), of_versions)
