"""Decodes all stored items of a table again, into new tables: for columns that widen, and for a rebuild."""

from collections.abc import Sequence

from sqlalchemy import Table

from connectors.warehouse.ingest.cells import RegisteredCells
from connectors.warehouse.ingest.columns import columns_select
from connectors.warehouse.merge.stored_items import decode_stored
from connectors.warehouse.schema.field_registry import own_names
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import create_table
from connectors.warehouse.storage.quoting import quoted
from models.schema.fields import Registry
from models.schema.mapping import Mapping
from models.schema.table_schemas import TableSchema, history, table_schemas
from models.tables import METADATA

# Columns that are not decoded from the payload: they are kept, or computed from the whole payload.
_KEY = "m.account_id, m.surface, m.media_id, m.raw_landed"
_LIFE = (
    f"{_KEY}, h.payload_hash, m.first_seen_at, m.written_at, m.written_seq, m.changed_at, m.content_changed_at,"
    " m.removed_at, m.removal, m.run_seq, m.first_run_seq"
)
_PERIOD = f"{_KEY}, m.valid_from, m.valid_to, m.run_seq"


def decode_again(connection: Connection, mapping: Mapping, registry: Registry) -> tuple[int, Registry]:
    """Decode the stored items of a table, their children and their earlier versions, into new tables.

    Ids, and the times at which versions begin and end, do not change. Return the number of items, and the registry with
    the fields and types of all payloads. Raises WarehouseUnusable when a part of the raw store is damaged or lacks a
    payload.
    """
    rows, found = _decode_tables(connection, mapping, registry)
    # Usually the registry has all fields and types, and one pass over the payloads is enough.
    if _types(found) != _types(registry):
        registry = found
        rows, found = _decode_tables(connection, mapping, registry)
    return rows, registry


def _types(registry: Registry) -> dict[tuple[str, str], tuple[object, ...]]:
    """Return what determines the tables. Times are left out: they depend on which items were rewritten."""
    return {key: (field.name, field.table, frozenset(field.json_types)) for key, field in registry.items()}


def _decode_tables(connection: Connection, mapping: Mapping, registry: Registry) -> tuple[int, Registry]:
    """Decode with this registry; return the number of items, and the registry with what the payloads have in addition.

    The tables are complete if that is nothing.
    """
    items, *children = table_schemas(mapping, registry)
    for child in children:
        create_children(connection, child)
    rows, known = _decode_table(connection, mapping, registry, registry, items, "changed_at", _LIFE, children)
    versions = history(items, mapping)
    _, known = _decode_table(connection, mapping, registry, known, versions, "valid_from", _PERIOD)
    return rows, known


def _new_table(connection: Connection, table: Table, schema: TableSchema) -> str:
    """Rename a table and create it empty, with the columns of its schema; return the old table's new name."""
    before = f"{table.name}_before"
    connection.db.execute(f"ALTER TABLE {table.fullname} RENAME TO {before}")
    connection.db.execute(create_table(table))
    for column in schema.columns:
        if column.name not in table.c:
            connection.db.execute(f"ALTER TABLE {table.fullname} ADD COLUMN {quoted(column.name)} {column.type}")
    return f"{table.schema}.{before}"


def _decode_table(
    connection: Connection,
    mapping: Mapping,
    registry: Registry,
    known: Registry,
    schema: TableSchema,
    at: str,
    kept: str,
    children: Sequence[TableSchema] = (),
) -> tuple[int, Registry]:
    """Decode the payloads of a table into a new table, and its children.

    `schema` follows from `registry`, `kept` are the columns that are copied from the old table, and `at` is the one
    with the time when an item was observed. Return the number of
    rows, and the registry `known` with all fields and types of the payloads. If it has one that `registry` lacks, the
    table is left as it was, and its children are incomplete.
    """
    table = METADATA.tables[f"core.{schema.table}"]
    before = _new_table(connection, table, schema)
    rows = 0
    for batch in decode_stored(connection, before, at, mapping, known, own_names(mapping)):
        cells = batch.cells
        known = cells.registry
        if _types(known) != _types(registry):
            continue
        columns = columns_select(schema, cells.layout.media.cells)
        ((written,),) = connection.db.execute(
            f"""
INSERT INTO {table.fullname} BY NAME
SELECT {kept}, c.* EXCLUDE (_order_key)
FROM (SELECT order_key AS _order_key, overflow{columns} FROM {cells.media}) AS c
JOIN {before} AS m ON m.rowid = c._order_key JOIN {batch.hashes} AS h ON h.order_key = c._order_key
ORDER BY c._order_key
"""  # noqa: S608 - quoted names
        ).fetchall()
        rows += written
        _insert_children(connection, children, cells, before)
    if _types(known) == _types(registry):
        connection.db.execute(f"DROP TABLE {before}")
    else:
        connection.db.execute(f"DROP TABLE {table.fullname}")
        connection.db.execute(f"ALTER TABLE {before} RENAME TO {table.name}")
    return rows, known


def create_children(connection: Connection, schema: TableSchema) -> None:
    """Create a child table, or replace it by an empty one."""
    columns = "".join(f", {quoted(column.name)} {column.type}" for column in schema.columns)
    connection.db.execute(
        f"CREATE OR REPLACE TABLE core.{quoted(schema.table)} (account_id VARCHAR NOT NULL, surface VARCHAR NOT NULL,"
        f" media_id VARCHAR NOT NULL, position INTEGER NOT NULL, run_seq BIGINT{columns})"
    )


def _insert_children(
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
