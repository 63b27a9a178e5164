"""The revision of a warehouse. Does not import Alembic, because the import takes longer than opening a file."""

from pathlib import Path

from duckdb import DuckDBPyConnection

# All revisions, oldest first. The first one is that of gramhouse 0.2.0.
REVISIONS = tuple(sorted(path.name[1:5] for path in (Path(__file__).parent / "versions").glob("r*.py")))
HEAD = REVISIONS[-1]

SCHEMA = "ops"
TABLE = f"{SCHEMA}.alembic_version"


def read(db: DuckDBPyConnection) -> str:
    """Return the recorded revision of the warehouse; empty if there is not exactly one."""
    rows = db.execute(f"SELECT version_num FROM {TABLE}").fetchall()  # noqa: S608 - a constant
    return str(rows[0][0]) if len(rows) == 1 else ""


def stamp(db: DuckDBPyConnection, revision: str) -> None:
    """Record the revision of a warehouse that has none yet, in the open transaction."""
    db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    db.execute(f"CREATE TABLE {TABLE} (version_num VARCHAR NOT NULL)")
    db.execute(f"INSERT INTO {TABLE} VALUES ('{revision}')")  # noqa: S608 - constants
