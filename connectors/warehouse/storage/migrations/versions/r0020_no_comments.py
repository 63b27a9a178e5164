"""Removes the comments of tables and columns: only the snapshot has them."""

from alembic import op

revision = "0020"
down_revision = "0019"

_COMMENTED = "comment IS NOT NULL AND schema_name IN ('core', 'ops')"
_QUERIES = {
    "TABLE": f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {_COMMENTED}",  # noqa: S608 - constants
    "COLUMN": f"SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE {_COMMENTED}",  # noqa: S608
}


def _quoted(*names: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def upgrade() -> None:
    """Remove the comments."""
    connection = op.get_bind()
    for kind, query in _QUERIES.items():
        for names in connection.exec_driver_sql(query).fetchall():
            connection.exec_driver_sql(f"COMMENT ON {kind} {_quoted(*names)} IS NULL")
