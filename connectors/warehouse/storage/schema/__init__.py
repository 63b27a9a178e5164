"""The warehouse's tables: numbered .sql files, each run once and in order. The number of the last one is stored.

The comment after a table's or a column's name in these files becomes its comment in the file.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import literal, quoted
from models.files import WarehouseUnusable

# `CREATE TABLE core.media (  -- Comment`, and `    media_id VARCHAR NOT NULL,  -- Comment`, continued by `    -- more`.
_TABLE = re.compile(r"^CREATE TABLE (core\.\w+) \(  -- (.+)$", re.MULTILINE)
_COLUMN = re.compile(r"^    (\w+) [A-Z].*  -- (.+(?:\n +-- .+)*)$", re.MULTILINE)
_MORE = re.compile(r"\n +-- ")


def prepare_tables(db: DuckDBPyConnection, path: Path) -> None:
    """Create the tables of a new file, or bring an older file's up to date, in the open transaction.

    Raises WarehouseUnusable if the file is no warehouse, is older than version 2.0, or was written by a newer version.
    """
    texts = [file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.sql"))]
    tables = {name for (name,) in db.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()}
    number = 0
    if "core.warehouse" in tables:
        [(number,)] = db.execute("SELECT schema_number FROM core.warehouse").fetchall()
    elif tables:
        what = "a gramhouse before 2.0 wrote it" if "core.media" in tables else "gramhouse did not write it"
        raise WarehouseUnusable(f"{path} cannot be used: {what}. Fix: move it away, then `gramhouse sync`.")
    if number > len(texts):
        what = f"a newer gramhouse wrote it (tables {number}; this one knows {len(texts)})"
        raise WarehouseUnusable(f"{path} cannot be used: {what}. Fix: upgrade gramhouse.")
    for text in texts[number:]:
        db.execute(";".join([text, *_comments(text)]))
    if number < len(texts):
        db.execute("UPDATE core.warehouse SET schema_number = ?", [len(texts)])


def _comments(text: str) -> Iterator[str]:
    """Yield the statements that store the comments of a file's tables and columns."""
    for definition in re.split(r"^(?=CREATE TABLE)", text, flags=re.MULTILINE):
        if (table := _TABLE.match(definition)) is not None:
            yield f"COMMENT ON TABLE {table[1]} IS {literal(table[2])}"
            for name, comment in _COLUMN.findall(definition):
                yield f"COMMENT ON COLUMN {table[1]}.{quoted(name)} IS {literal(_MORE.sub(' ', comment))}"
