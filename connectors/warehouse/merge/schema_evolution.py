"""Alters the tables of items, versions and children to match the schemas: adds, widens and fills columns.

DuckDB refuses to commit an ALTER of a table to which the same transaction has already written rows, so a merge does
this first.
"""

from collections.abc import Collection, Sequence

from connectors.warehouse.ingest.cells import RegisteredCells
from connectors.warehouse.ingest.columns import columns_select
from connectors.warehouse.merge.stored_items import StoredItems, decode_stored, present, superseded
from connectors.warehouse.schema.field_registry import own_names
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.quoting import quoted
from models.schema.fields import Field, Registry
from models.schema.json_types import JsonType
from models.schema.mapping import Mapping as MediaMapping
from models.schema.table_schemas import ColumnSchema, TableSchema, history
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


def _alter_columns(
    connection: Connection, schema: TableSchema, there: dict[str, str], known: Registry
) -> Sequence[ColumnSchema]:
    """Add and widen columns; return those that must be filled from stored items."""
    table = f"core.{schema.table}"
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
    return filled


def create_children(connection: Connection, schema: TableSchema) -> None:
    """Create a child table, or replace it by an empty one."""
    columns = "".join(f", {quoted(column.name)} {column.type}" for column in schema.columns)
    connection.db.execute(
        f"CREATE OR REPLACE TABLE core.{quoted(schema.table)} (account_id VARCHAR NOT NULL, surface VARCHAR NOT NULL,"
        f" media_id VARCHAR NOT NULL, position INTEGER NOT NULL, run_seq BIGINT{columns})"
    )


def _alter_children(
    connection: Connection, schema: TableSchema, lists: Sequence[Field], there: dict[str, str] | None, known: Registry
) -> bool:
    """Alter a child table, which these lists fill; return whether it is new and must be filled from stored items."""
    new = [column for column in schema.columns if there is None or column.name not in there]
    is_widened = there is not None and any(there.get(one.name, one.type) != one.type for one in schema.columns)
    must_fill = (
        is_widened
        or any(_in_store(one, known) for one in lists if JsonType.ROWS not in _types_before(one, known))
        or any(_in_store(column.field, known) for column in new)
    )
    if must_fill or there is None:
        create_children(connection, schema)
        return must_fill
    for column in new:
        connection.db.execute(f"ALTER TABLE core.{quoted(schema.table)} ADD COLUMN {quoted(column.name)} {column.type}")
    return False


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
    columns: Sequence[ColumnSchema],
    children: Sequence[TableSchema] = (),
) -> None:
    db = connection.db
    if not (columns or children):
        return
    db.execute("CREATE OR REPLACE TEMP TABLE filled AS SELECT NULL::BIGINT AS _order_key LIMIT 0")
    for column in columns:
        db.execute(f"ALTER TABLE temp.filled ADD COLUMN {quoted(column.name)} {column.type}")
    for batch in decode_stored(connection, stored, mapping, registry, own_names(mapping)):
        cells = batch.cells
        if columns:
            found = columns_select(TableSchema(mapping.table, tuple(columns)), cells.layout.media.cells)
            db.execute(f"INSERT INTO temp.filled BY NAME SELECT order_key AS _order_key{found} FROM {cells.media}")  # noqa: S608
        insert_children(connection, children, cells, stored.table)
    if columns:
        names = ", ".join(f"{quoted(column.name)} = f.{quoted(column.name)}" for column in columns)
        db.execute(f"UPDATE {stored.table} AS t SET {names} FROM temp.filled AS f WHERE t.rowid = f._order_key")  # noqa: S608
    db.execute("DROP TABLE temp.filled")


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
    content = {*METADATA.tables[f"core.{versions.table}"].c.keys(), *(column.name for column in versions.columns)}
    # Columns that are no longer content, for example because of media URLs.
    for name in tables[versions.table].keys() - content:
        connection.db.execute(f"ALTER TABLE core.{versions.table} DROP COLUMN {quoted(name)}")
    emptied = []
    for schema in children:
        lists = [registry[mapping.table, path] for path in schema.lists]
        if _alter_children(connection, schema, lists, tables.get(schema.table), known):
            emptied.append(schema)
    _fill(connection, mapping, registry, present(mapping.table), of_items, emptied)
    _fill(connection, mapping, registry, superseded(mapping.table), of_versions)
