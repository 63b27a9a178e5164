"""What a file declares: its tables and columns, and all else it can hold beside rows; comments and views aside."""

from duckdb import DuckDBPyConnection

from connectors.warehouse.quoting import literal

# Not the views' queries: DuckDB writes that of a view read from a file a little differently.
_ASKED = (
    "SELECT schema_name FROM duckdb_schemas() WHERE {here}",
    "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE {here}",
    """
SELECT schema_name, table_name, column_index, column_name, data_type, is_nullable, column_default
FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, table_oid) WHERE {here}
""",
    "SELECT schema_name, index_name, sql FROM duckdb_indexes() WHERE {here}",
    "SELECT schema_name, sequence_name, sql FROM duckdb_sequences() WHERE {here}",
    "SELECT schema_name, function_name FROM duckdb_functions() WHERE {here} AND NOT internal",
    "SELECT schema_name, type_name FROM duckdb_types() WHERE {here} AND NOT internal",
)


def view_names(db: DuckDBPyConnection, database: str) -> set[tuple[object, ...]]:
    """Return the views of an attached database, each by its schema and name."""
    query = "SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal AND database_name ="
    return set(db.execute(f"{query} {literal(database)}").fetchall())


def catalogue(db: DuckDBPyConnection, database: str) -> list[list[tuple[object, ...]]]:
    """Return what an attached database declares: equal lists, equal declarations."""
    here = f"database_name = {literal(database)}"
    return [db.execute(f"{query.format(here=here)} ORDER BY ALL").fetchall() for query in _ASKED]
