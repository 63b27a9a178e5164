"""The number of a warehouse's schema: which scripts create or change its tables, and which files are refused."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.quoting import literal

_PACKAGE = files(__package__)

FOLDER = _PACKAGE.joinpath("changes")

_CHANGE = re.compile(r"(\d{4})_\w+\.sql")

_TABLES = "SELECT schema_name || '.' || table_name FROM duckdb_tables()"

# Gramhouse up to 1.0 kept Alembic's revision there.
_OLD = "ops.alembic_version"


def changes() -> Mapping[int, str]:
    """Return the scripts that change the tables, by the number of the schema that each leads to."""
    names = ((_CHANGE.fullmatch(path.name), path) for path in FOLDER.iterdir())
    return dict(sorted((int(name[1]), path.read_text(encoding="utf-8")) for name, path in names if name))


def newest() -> int:
    """Return the number of the schema of `tables.sql`."""
    return max(changes(), default=1)


def read_schema_number(db: DuckDBPyConnection, path: Path) -> int:
    """Return the number of the warehouse's schema; 0 if the file has no tables.

    Raises WarehouseUnusable when the file is not a warehouse of gramhouse 2.0 or later, or of a newer one than this.
    """
    present = {name for (name,) in db.execute(_TABLES).fetchall()}
    if not present:
        return 0
    if _OLD in present:
        raise WarehouseUnusable(
            f"{path} cannot be used: it was written by gramhouse 1.0 or older. Fix: move it, the files"
            " beside it whose names begin with its own, and its snapshot away, then run `gramhouse sync`, which fetches"
            " everything again."
        )
    numbers = db.execute("SELECT schema_number FROM ops.warehouse").fetchall() if "ops.warehouse" in present else []
    if not numbers:
        raise WarehouseUnusable(
            f"{path} cannot be used: it is a DuckDB file, but not one that gramhouse wrote as its warehouse"
            f" (it holds {min(present)}). Fix: set GRAMHOUSE_WAREHOUSE to another file."
        )
    number = int(numbers[0][0])
    if number > newest():
        raise WarehouseUnusable(
            f"{path} cannot be used: it was written by a newer gramhouse (its schema has number {number}, and this one"
            f" knows up to {newest()}). Fix: upgrade gramhouse."
        )
    return number


def pending_scripts(number: int, new_id: Callable[[], str]) -> Mapping[int, str]:
    """Return the scripts that lead from this schema to the newest one, by the number of the schema after each.

    Each is to be run in a transaction of its own. `new_id` generates the id of a new warehouse (`number` is 0).
    """
    if not number:
        row = f"INSERT INTO ops.warehouse VALUES ({literal(new_id())}, 0, '', NULL, 0, {newest()})"  # noqa: S608 - quoted
        tables = _PACKAGE.joinpath("tables.sql").read_text(encoding="utf-8")
        return {newest(): f"{tables}{row}"}
    numbered = "UPDATE ops.warehouse SET schema_number ="
    return {after: f"{script};\n{numbered} {after}" for after, script in changes().items() if after > number}
