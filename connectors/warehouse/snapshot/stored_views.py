"""The snapshot's views in the warehouse file, so that a copy of the file has them with all their comments."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection
from sqlalchemy.schema import CreateTable

from connectors.warehouse.snapshot.contents import LOOKUPS, Relation
from connectors.warehouse.storage.connection import raw_connection, value
from connectors.warehouse.storage.quoting import literal, quoted
from models.tables import SNAPSHOT
from models.views import views

# Its definition contains the fingerprint of the stored views.
_FINGERPRINT = "stored_views"

_IS_STORED = f"""
SELECT EXISTS (
    FROM duckdb_views()
    WHERE database_name = current_database() AND schema_name = 'ops' AND view_name = '{_FINGERPRINT}'
        AND contains(sql, {{fingerprint}})
)
"""  # noqa: S608 - a constant

_STORED = """
SELECT view_name FROM duckdb_views()
WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
"""

_TABLES = """
SELECT sql FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'core' ORDER BY table_name
"""


def comments(kind: str, name: str, comment: str, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that add the comments of a table or view in `main`, and those of its columns."""
    yield f"COMMENT ON {kind} main.{quoted(name)} IS {literal(comment)}"
    for column, text in columns.items():
        yield f"COMMENT ON COLUMN main.{quoted(name)}.{quoted(column)} IS {literal(text)}"


def _creating(relations: Sequence[Relation]) -> Iterator[str]:
    for relation in relations:
        yield f"CREATE VIEW main.{quoted(relation.name)} AS {relation.select}"
        yield from comments("VIEW", relation.name, relation.comment, relation.columns)
    for view in views():
        yield f"CREATE VIEW main.{view.name} AS {view.select}"
        yield from comments("VIEW", view.name, view.comment, view.columns)


def _fingerprint(db: DuckDBPyConnection, statements: Sequence[str]) -> str:
    # With the tables: a view fails once the type of a column differs from that at the view's creation.
    # With DuckDB's version: another one may derive other types.
    known = (duckdb.__version__, statements, db.execute(_TABLES).fetchall())
    return hashlib.sha256(repr(known).encode()).hexdigest()


def store_views(connection: Connection, relations: Sequence[Relation]) -> None:
    """Replace the views in the warehouse file if they are not those of `relations`. Call it within a transaction.

    Each of their 300 comments is a statement of DuckDB; together they took most of the time of publishing a small
    warehouse. In the warehouse itself most of the views cannot be queried: `published` and the tables in `LOOKUPS`
    are only in the snapshot.
    """
    db = raw_connection(connection)
    creating = list(_creating(relations))
    fingerprint = literal(_fingerprint(db, creating))
    if value(db, _IS_STORED.format(fingerprint=fingerprint)):
        return
    statements = [f"DROP VIEW main.{quoted(name)}" for (name,) in db.execute(_STORED).fetchall()]
    # DuckDB creates a view only if its tables exist.
    published = SNAPSHOT.tables["published"]
    statements += [f"CREATE TABLE {name} AS {select} WITH NO DATA" for name, select in LOOKUPS.items()]
    statements.append(str(CreateTable(published).compile(dialect=connection.dialect)))
    statements += creating
    statements += [f"DROP TABLE {name}" for name in (*LOOKUPS, published.name)]
    statements.append(f"CREATE OR REPLACE VIEW ops.{_FINGERPRINT} AS SELECT {fingerprint} AS fingerprint")
    # In one call: hundreds of small statements took twice as long one by one.
    db.execute(";\n".join(statements))
