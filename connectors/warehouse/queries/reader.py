"""Read-only access to the snapshot; neither the snapshot nor a user's query can reach other files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection, DuckDBPyRelation

from connectors.warehouse.queries.user_query import as_texts, check_reading, embed
from connectors.warehouse.storage.durable import log_problem, unreadable
from connectors.warehouse.storage.errors import QueryError, SnapshotMissing, SnapshotUnreadable, WarehouseUnusable
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.views import macros

PADDED = "padded"
"""The schema that only a snapshot with hidden columns has: the views of `main`, with NULL in these columns."""

# Values are SQL.
_SETTINGS = {
    "TimeZone": "'UTC'",
    # DuckDB would print it to standard output, before the result.
    "enable_progress_bar": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}

_SQL = statements(__name__)

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An open snapshot. Later publications do not change it.

    Queries of gramhouse on `db`, within `open_snapshot`, raise SnapshotUnreadable.
    """

    db: DuckDBPyConnection

    def query(self, query: str, parameters: Sequence[object] = ()) -> Answer:
        """Run a query of gramhouse. Raises SnapshotUnreadable."""
        try:
            cursor = self.db.execute(query, list(parameters))
            return Answer(tuple(str(name) for name, *_ in cursor.description or ()), cursor.fetchall())
        except (duckdb.Error, OverflowError, ValueError) as error:
            raise SnapshotUnreadable(error) from error

    def relations(self) -> list[dict[str, Any]]:
        """Return name, kind (table, view or macro) and comment of each relation. Raises SnapshotUnreadable."""
        return self.query(_SQL["relations"]).records()

    def count(self, table: str) -> int:
        """Return the number of rows of a table. Raises SnapshotUnreadable."""
        ((rows,),) = self.query(f"SELECT count(*) FROM main.{quoted(table)}").rows  # noqa: S608 - quoted
        return int(rows)

    def columns(self, table: str) -> list[dict[str, Any]]:
        """Return name, type and comment of each column of a table, view or macro. Raises SnapshotUnreadable."""
        if (macro := macros().get(table)) is None:
            return self.query(_SQL["columns"], [table]).records()
        described = self.query(f"DESCRIBE FROM main.{quoted(table)}(now())").rows
        return [{"name": name, "type": kind, "comment": macro.columns.get(name)} for name, kind, *_ in described]

    def user_query(self, text: str, *, for_json: bool = False) -> Stream:
        """Run a user's query if it only reads.

        Every value is DuckDB's text; with `for_json` it is what JSON has (`as_texts`). Of columns with the same
        name, all but the first are renamed as in a DuckDB table: `a`, `a_1`. Raises QueryError, also while the batches
        are read.
        """
        try:
            check_reading(self.db, text)
            relation = self.db.sql(text)
            if relation is None:
                raise QueryError("The query is empty.")
            # A projection renames the columns.
            unique = relation.project("*")
            rows, is_json = as_texts(unique, for_json=for_json)
        except duckdb.Error as error:
            raise QueryError(str(error)) from error
        batches = (
            [
                tuple(embed(value) if embedded else value for value, embedded in zip(row, is_json, strict=True))
                for row in batch
            ]
            for batch in _batches(rows)
        )
        return Stream(tuple(unique.columns), tuple(str(kind) for kind in unique.types), batches)


def _batches(rows: DuckDBPyRelation) -> Iterator[list[tuple[Any, ...]]]:
    try:
        while batch := rows.fetchmany(_BATCH):
            yield batch
    except duckdb.Error as error:
        raise QueryError(str(error)) from error


def check_readable(path: Path) -> None:
    """Raise SnapshotMissing if there is no snapshot, and WarehouseUnusable if another program's log is next to it."""
    if not path.exists():
        raise SnapshotMissing(f"There is no snapshot at {path} yet. Fix: `gramhouse sync` creates it.")
    if (problem := log_problem(path)) is not None:
        raise WarehouseUnusable(problem)


@contextmanager
def open_snapshot(
    path: Path, *, with_raw: bool = False, as_published: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[Snapshot]:
    """Open the snapshot for reading. `with_raw` adds `raw_media` and `raw_versions`, views of the raw store.

    Columns that the snapshot hides are NULL, and its accounts have their ids as names, so that every query can be
    answered; `as_published`: such columns do not exist. `settings` are more settings of DuckDB, their values SQL.

    Raises SnapshotMissing and WarehouseUnusable; SnapshotUnreadable if a query within the block fails.
    """
    check_readable(path)
    try:
        db = duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise WarehouseUnusable(unreadable(path, str(error))) from error
    try:
        for name, setting in {**_SETTINGS, **(settings or {}), "enable_external_access": "false"}.items():
            db.execute(f"SET {name} = {setting}")
        if with_raw:
            # pyarrow would take most of the time of a short command, which rarely needs it.
            from connectors.warehouse.queries.raw_media import add_raw_media  # noqa: PLC0415

            add_raw_media(db)
        if not as_published and db.execute(_SQL["hiding"], [PADDED]).fetchall():
            db.execute(f"USE {PADDED}")
        db.execute("SET lock_configuration = true")
        yield Snapshot(db)
    except duckdb.Error as error:
        raise SnapshotUnreadable(error) from error
    finally:
        db.close()
