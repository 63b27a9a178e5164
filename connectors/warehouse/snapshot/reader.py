"""Reads the snapshot: read-only, without access to other files, without blocking a writer."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from connectors.warehouse.raw.listed import PADDED, add_raw_media, has_hidden_columns, listed_parts
from connectors.warehouse.raw.store import check_part
from connectors.warehouse.snapshot.user_query import TEXT, as_json, cast, check_reading
from connectors.warehouse.storage.durable import log_problem, unreadable
from connectors.warehouse.storage.errors import QueryError, SnapshotMissing, SnapshotUnreadable, WarehouseUnusable
from connectors.warehouse.storage.feed_items import feed_items
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements

# User queries must not be able to read or write other files of this machine.
_SHUT: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


# Queries for the tables and views of the current database, and for the columns of one of them.
RELATIONS = statements(__name__)["relations"]
COLUMNS = statements(__name__)["columns"]

_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's result: column names, and rows of Python values."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Stream:
    """A user query's result in batches, so that a caller need not hold all rows in memory."""

    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    batches: Iterator[list[tuple[Any, ...]]]


class Snapshot:
    """An open snapshot. Later publications do not change it."""

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        self._db = db

    def query(self, query: str, parameters: Sequence[object] = ()) -> Answer:
        """Run a query of gramhouse. Raises SnapshotUnreadable."""
        try:
            cursor = self._db.execute(query, list(parameters))
            return Answer(tuple(str(name) for name, *_ in cursor.description or ()), cursor.fetchall())
        except (duckdb.Error, OverflowError, ValueError) as error:
            raise SnapshotUnreadable(error) from error

    def relations(self) -> list[dict[str, Any]]:
        """Return name, kind (table or view), comment and number of rows of each relation.

        The rows of views, which are expensive to compute, are None. Raises SnapshotUnreadable.
        """
        return [
            found | {"rows": self._count(found["name"]) if found["kind"] == "table" else None}
            for found in self.query(RELATIONS).records()
        ]

    def _count(self, table: str) -> int:
        ((rows,),) = self.query(f"SELECT count(*) FROM main.{quoted(table)}").rows  # noqa: S608 - quoted
        return int(rows)

    def items(self, columns: str) -> str:
        """Return the query for columns of the items of all feeds, such as `media_id` and `removed_at`."""
        return feed_items(lambda query, values: self.query(query, values).rows, columns)

    def columns(self, table: str) -> list[dict[str, Any]]:
        """Return name, type and comment of each column of a table or view."""
        return self.query(COLUMNS, [table]).records()

    def user_query(self, text: str, *, for_json: bool = False) -> Stream:
        """Run a user's query if it only reads.

        Every value is DuckDB's text; with `for_json` it is what `as_json` makes of it. Of columns with the same name,
        all but the first are renamed as in a DuckDB table: `a`, `a_1`. Raises QueryError, also while the batches are
        read.
        """
        try:
            check_reading(self._db, text)
            relation = self._db.sql(text)
            if relation is None:
                raise QueryError("The query is empty.")
            # A projection renames the columns.
            unique = relation.project("*")
            shown = [as_json(kind) if for_json else TEXT for kind in unique.types]
            rows = cast(unique, shown)
        except duckdb.Error as error:
            raise QueryError(str(error)) from error
        batches = (
            [tuple(to.value(value) for to, value in zip(shown, row, strict=True)) for row in batch]
            for batch in _batches(rows)
        )
        return Stream(tuple(unique.columns), tuple(str(kind) for kind in unique.types), batches)


def _batches(rows: duckdb.DuckDBPyRelation) -> Iterator[list[tuple[Any, ...]]]:
    while True:
        try:
            batch = rows.fetchmany(_BATCH)
        except duckdb.Error as error:
            raise QueryError(str(error)) from error
        except (OverflowError, ValueError) as error:
            raise QueryError(f"A value cannot be represented in Python ({error}). Fix: cast it to VARCHAR.") from error
        if not batch:
            return
        yield batch


def _add_raw_media(db: duckdb.DuckDBPyConnection) -> None:
    """Create the view `raw_media` of undamaged parts, and restrict the connection's file access to them."""
    try:
        parts = listed_parts(db)
        for part in parts:
            check_part(part.path, part.bytes, part.checksum)
    except WarehouseUnusable:
        db.close()
        raise
    allowed = ", ".join(literal(str(part.path)) for part in parts)
    db.execute(f"SET allowed_paths = [{allowed}]")
    for name, value in _SHUT.items():
        db.execute(f"SET {name} = {value}")
    add_raw_media(db, parts)


def check_readable(path: Path) -> None:
    """Raise SnapshotMissing if there is no snapshot, and WarehouseUnusable if another program's log is next to it."""
    if not path.exists():
        raise SnapshotMissing(f"There is no snapshot at {path} yet. Fix: `gramhouse sync` creates it.")
    if (problem := log_problem(path)) is not None:
        raise WarehouseUnusable(problem)


@contextmanager
def open_snapshot(path: Path, *, with_raw: bool = False, as_published: bool = False) -> Iterator[Snapshot]:
    """Open the snapshot for reading. `with_raw` adds `raw_media`, a view of the raw store parts in its list.

    Columns that the snapshot hides are NULL, and its accounts have their ids as names, so that every query can be
    answered; `as_published`: such columns do not exist.

    Raises SnapshotMissing and WarehouseUnusable.
    """
    check_readable(path)
    try:
        db = duckdb.connect(str(path), read_only=True, config={} if with_raw else _SHUT)
        if with_raw:
            _add_raw_media(db)
        if not as_published and has_hidden_columns(db):
            db.execute(f"USE {PADDED}")
        db.execute("SET TimeZone = 'UTC'")
        # DuckDB would print it to standard output, before the result.
        db.execute("SET enable_progress_bar = false")
        db.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise WarehouseUnusable(unreadable(path, str(error))) from error
    try:
        yield Snapshot(db)
    finally:
        db.close()
