"""Runs the pending revisions of a warehouse."""

from pathlib import Path

import duckdb_sqlalchemy.alembic_impl  # noqa: F401 - tells Alembic of DuckDB, whose DDL is transactional
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

FOLDER = Path(__file__).parent


def config() -> Config:
    """Return what Alembic needs to find the revisions."""
    found = Config()
    # The value is interpolated, and a folder's name may hold a percent sign.
    found.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return found


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the warehouse to a revision, all on the way to it in the transaction that is under way.

    Raises whatever a revision dies of; the transaction is the caller's to roll back.
    """
    alembic = config()
    alembic.attributes["connection"] = connection
    command.upgrade(alembic, revision)
