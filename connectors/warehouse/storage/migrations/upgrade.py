"""Runs the pending revisions of a warehouse."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb_sqlalchemy.alembic_impl  # noqa: F401 - registers DuckDB with Alembic, with transactional DDL
from alembic import command
from alembic.config import Config
from duckdb import DuckDBPyConnection
from duckdb_sqlalchemy import ConnectionWrapper
from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import StaticPool

FOLDER = Path(__file__).parent


class _InTransaction(ConnectionWrapper):
    """DuckDB's connection for SQLAlchemy, in a transaction that the caller began and ends."""

    def begin(self) -> None:
        pass

    commit = rollback = close = begin


def config() -> Config:
    """Return the configuration with which Alembic finds the revisions."""
    found = Config()
    # Percent signs in the folder's name are escaped, because Alembic interpolates the value.
    found.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return found


@contextmanager
def shared(db: DuckDBPyConnection) -> Iterator[Connection]:
    """Return a connection of SQLAlchemy that shares DuckDB's, and never begins or ends a transaction of it."""
    engine = create_engine("duckdb://", creator=lambda: _InTransaction(db), poolclass=StaticPool)
    with engine.connect() as connection:
        yield connection


def upgrade(db: DuckDBPyConnection, revision: str) -> None:
    """Upgrade the warehouse to a revision, with all revisions before it, in the open transaction.

    Raises whatever a revision raises; the caller must then roll back.
    """
    alembic = config()
    with shared(db) as connection:
        alembic.attributes["connection"] = connection
        command.upgrade(alembic, revision)
