"""The list of raw store parts in a snapshot, so that readers of the raw store need not open the warehouse."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.store import parquet, part_name
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.feed_items import feed_items
from connectors.warehouse.storage.quoting import literal

_LIST = "core.raw_parts"

PADDED = "padded"
"""The schema that only a snapshot with hidden columns has: the views of `main`, with NULL in these columns."""

_MENTIONED = re.compile(r"\braw_media\b", re.IGNORECASE)


class ListedPart(NamedTuple):
    """A part of the raw store: its file, rows, size in bytes, and checksum."""

    path: Path
    rows: int
    bytes: int
    checksum: str


def list_statement(folder: Path) -> str:
    """Return the statement that lists the parts in `folder` that are not retired, in a copy of the warehouse."""
    return (
        f"CREATE TABLE {_LIST} AS SELECT {literal(str(folder))} AS folder, number, rows, bytes, checksum"  # noqa: S608
        " FROM ops.raw_parts WHERE retired_at IS NULL ORDER BY number"
    )


def has_hidden_columns(db: DuckDBPyConnection) -> bool:
    """Return whether the current database is a snapshot that was published with GRAMHOUSE_HIDE."""
    schemas = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
    return (PADDED,) in db.execute(schemas).fetchall()


def listed_parts(db: DuckDBPyConnection) -> list[ListedPart]:
    """Return the parts that the attached snapshot lists.

    Raises WarehouseUnusable when a part cannot be read, or when the snapshot has no such list, because it has hidden
    columns or an older version published it.
    """
    try:
        rows = db.execute(f"SELECT folder, number, rows, bytes, checksum FROM {_LIST} ORDER BY number").fetchall()  # noqa: S608
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        message = (
            "this snapshot has no list of the raw store: it was published by an older version. Fix: `gramhouse"
            " publish`."
        )
        if has_hidden_columns(db):
            message = (
                "this snapshot has hidden columns, so the raw store cannot be read with it. Fix: unset GRAMHOUSE_HIDE"
                " and run `gramhouse publish`."
            )
        raise WarehouseUnusable(message) from error
    parts = [ListedPart(Path(folder) / part_name(number), *values) for folder, number, *values in rows]
    for part in parts:
        if not os.access(part.path, os.R_OK):
            why = "permission is denied" if part.path.exists() else "it does not exist"
            raise WarehouseUnusable(
                f"{part.path} of the raw store cannot be read: {why}. Fix: make {part.path.parent} readable here; after"
                " `gramhouse compact`, open a new snapshot."
            )
    return parts


def mentions_raw_media(query: str) -> bool:
    """Return whether a user's query may read `raw_media`."""
    return _MENTIONED.search(query) is not None


def add_raw_media(db: DuckDBPyConnection, parts: list[ListedPart]) -> None:
    """Create the views `raw_versions` of these parts, and `raw_media`: the newest version of each item of any feed."""
    landed = feed_items(lambda query, values: db.execute(query, values).fetchall(), "raw_landed AS landed")
    db.execute(f"CREATE TEMP VIEW raw_versions AS FROM {parquet(part.path for part in parts)}")
    db.execute(
        f"CREATE TEMP VIEW raw_media AS SELECT r.* FROM raw_versions AS r SEMI JOIN ({landed}) AS m USING (landed)"  # noqa: S608
    )
