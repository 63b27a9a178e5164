"""The warehouse's tables: numbered .sql files, each run once and in order. The number of the last one is stored.

The comment after a table's or a column's name in these files becomes its comment in the file.
"""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.quoting import literal, quoted

# `CREATE TABLE core.media (  -- Comment`, and `    media_id VARCHAR NOT NULL,  -- Comment`, continued by `    -- more`.
_TABLE = re.compile(r"^CREATE TABLE (core\.\w+) \(  -- (.+)$", re.MULTILINE)
_COLUMN = re.compile(r"^    (\w+) [A-Z].*  -- (.+(?:\n +-- .+)*)$", re.MULTILINE)
_MORE = re.compile(r"\n +-- ")


def schema_files() -> Sequence[str]:
    """Return the texts of the numbered files, the first one first."""
    paths = sorted((path for path in files(__package__).iterdir() if path.name.endswith(".sql")), key=lambda p: p.name)
    return [path.read_text(encoding="utf-8") for path in paths]


def comments_of(text: str) -> Sequence[str]:
    """Return the statements that store the comments of a file's tables and columns."""
    statements = []
    for definition in re.split(r"^(?=CREATE TABLE)", text, flags=re.MULTILINE):
        if (table := _TABLE.match(definition)) is None:
            continue
        statements.append(f"COMMENT ON TABLE {table[1]} IS {literal(table[2])}")
        for name, comment in _COLUMN.findall(definition):
            statements.append(f"COMMENT ON COLUMN {table[1]}.{quoted(name)} IS {literal(_MORE.sub(' ', comment))}")
    return statements


def read_schema_number(db: DuckDBPyConnection, path: Path) -> int:
    """Return the number of the last file that was run; 0 for a file without tables.

    Raises WarehouseUnusable if the file is no warehouse, is older than version 2.0, or was written by a newer version.
    """
    tables = {name for (name,) in db.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()}
    if not tables:
        return 0
    if "core.warehouse" not in tables:
        what = "a gramhouse before 2.0 wrote it" if "core.media" in tables else "gramhouse did not write it"
        raise WarehouseUnusable(f"{path} cannot be used: {what}. Fix: move it away, then `gramhouse sync`.")
    [(number,)] = db.execute("SELECT schema_number FROM core.warehouse").fetchall()
    if number > (known := len(schema_files())):
        raise WarehouseUnusable(
            f"{path} cannot be used: a newer gramhouse wrote it (tables {number}; this one knows {known})."
            " Fix: upgrade gramhouse."
        )
    return int(number)


def prepare_tables(db: DuckDBPyConnection, path: Path) -> None:
    """Create the tables of a new file, or bring an older file's up to date, in the open transaction.

    Raises WarehouseUnusable as `read_schema_number` does.
    """
    number, texts = read_schema_number(db, path), schema_files()
    for text in texts[number:]:
        db.execute(";".join([text, *comments_of(text)]))
    if number < len(texts):
        db.execute("UPDATE core.warehouse SET schema_number = ?", [len(texts)])
