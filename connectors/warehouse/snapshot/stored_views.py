"""The snapshot's views in the warehouse file, so that a copy of the file has them with all their comments."""

import hashlib
from collections.abc import Iterator, Sequence

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.snapshot.contents import lookups
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.quoting import literal, quoted
from models.views import View

# Its definition contains the fingerprint and the names of the stored views.
_REGISTER = "stored_views"

_REGISTERED = f"""
SELECT sql FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = 'ops' AND view_name = '{_REGISTER}'
"""  # noqa: S608 - a constant

_TABLES = """
SELECT sql FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name IN ('core', 'ops')
ORDER BY schema_name, table_name
"""


def creating(view: View) -> Iterator[str]:
    """Yield the statements that create a view in schema `main`, with its comments."""
    name = f"main.{quoted(view.name)}"
    yield f"CREATE VIEW {name} AS {view.select}"
    yield f"COMMENT ON VIEW {name} IS {literal(view.comment)}"
    for column, comment in view.columns.items():
        yield f"COMMENT ON COLUMN {name}.{quoted(column)} IS {literal(comment)}"


def _fingerprint(db: DuckDBPyConnection, statements: Sequence[str]) -> str:
    # With the tables and DuckDB's version, because a view stores the types of its columns when it is created.
    known = (duckdb.__version__, statements, db.execute(_TABLES).fetchall())
    return hashlib.sha256(repr(known).encode()).hexdigest()


def store_views(connection: Connection, views: Sequence[View]) -> None:
    """Replace the snapshot's views in the warehouse file if they are not these. Call it within a transaction.

    Each of their 250 comments is a statement of DuckDB; together they took most of the time of publishing a small
    warehouse. In the warehouse itself most of the views cannot be queried: the tables of `lookups` are only in the
    snapshot. Other views in `main` are kept.
    """
    db = connection.db
    tables = lookups({})
    made = [
        # DuckDB creates a view only if its tables exist.
        *(f"CREATE TABLE {name} AS {select} WITH NO DATA" for name, select in tables.items()),
        *(statement for view in views for statement in creating(view)),
        *(f"DROP TABLE {name}" for name in tables),
    ]
    fingerprint = _fingerprint(db, made)
    registered = db.execute(_REGISTERED).fetchall()
    if registered and fingerprint in registered[0][0]:
        return
    stored = db.execute(f"SELECT unnest(names) FROM ops.{_REGISTER}").fetchall() if registered else []  # noqa: S608
    names = ", ".join(literal(view.name) for view in views)
    register = f"SELECT {literal(fingerprint)} AS fingerprint, [{names}] AS names"
    statements = [
        *(f"DROP VIEW IF EXISTS main.{quoted(name)}" for (name,) in stored),
        *made,
        f"CREATE OR REPLACE VIEW ops.{_REGISTER} AS {register}",
    ]
    # In one call: hundreds of small statements took twice as long one by one.
    db.execute(";\n".join(statements))
