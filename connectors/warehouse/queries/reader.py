"""Read-only access to the snapshot; neither the snapshot nor a user's query can reach other files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import msgspec
from duckdb import DuckDBPyConnection, DuckDBPyRelation, StatementType, token_type, tokenize
from duckdb.sqltypes import DuckDBPyType

from connectors.warehouse.storage.files import logs
from connectors.warehouse.storage.sql import quoted, statements
from models.files import (
    QueryError,
    SnapshotMissing,
    SnapshotUnreadable,
    WarehouseUnusable,
    first_line,
)
from models.views import macros

Record = dict[str, Any]
"""A row, by column name."""

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

_ONLY_READING = (
    "Only statements that read the snapshot are allowed: SELECT, FROM, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN, PIVOT,"
    " UNPIVOT, WITH, VALUES."
)

# Functions that a SELECT can call, but that change the process, write to its output, abort it, or run SQL text that is
# not checked here. The file is opened read-only and without access to other files, so nothing else can do harm.
_ACTING = {
    "checkpoint", "disable_logging", "disable_profiling", "enable_logging", "enable_profiling", "force_checkpoint",
    "json_execute_serialized_sql", "query", "query_table", "truncate_duckdb_logs", "write_log",
}  # fmt: skip
_RAW = re.compile(r"\braw_(media|versions)\b", re.IGNORECASE)
_CALL = re.compile(r'"?(\w+)"?\s*', re.ASCII)
# What DuckDB takes for a space, but its tokenizer does not.
_SPACE = re.compile("[\u00a0\u1680\u180e\u2000-\u200f\u2028\u2029\u202f\u205f-\u2064\u3000\ufeff]")
_NAMES = {token_type.identifier, token_type.keyword}

# What JSON has values for. Anything else is text, as DuckDB writes it, because a JSON number may lose digits.
_JSON_TYPES = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint",
    "uhugeint", "float", "double", "list", "array", "map", "struct",
}  # fmt: skip


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

    def query(self, query: str, parameters: Sequence[object] = ()) -> list[Record]:
        """Return the rows of a query of gramhouse, by column name. Raises SnapshotUnreadable."""
        try:
            cursor = self.db.execute(query, list(parameters))
            names = [str(name) for name, *_ in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except (duckdb.Error, OverflowError, ValueError) as error:
            raise SnapshotUnreadable(error) from error

    def relations(self) -> list[Record]:
        """Return name, kind (table, view or macro) and comment of each relation. Raises SnapshotUnreadable."""
        return self.query(_SQL["relations"])

    def count(self, table: str) -> int:
        """Return the number of rows of a table. Raises SnapshotUnreadable."""
        [row] = self.query(f"SELECT count(*) AS number FROM main.{quoted(table)}")  # noqa: S608 - quoted
        return int(row["number"])

    def columns(self, table: str) -> list[Record]:
        """Return name, type and comment of each column of a table, view or macro. Raises SnapshotUnreadable."""
        if (macro := macros().get(table)) is None:
            return self.query(_SQL["columns"], [table])
        query = f"SELECT column_name AS name, column_type AS type FROM (DESCRIBE FROM main.{quoted(table)}(now()))"  # noqa: S608
        return [{**each, "comment": macro.columns.get(each["name"])} for each in self.query(query)]

    def user_query(self, text: str, *, for_json: bool = False) -> Stream:
        """Run a user's query if it only reads.

        Every value is DuckDB's text; with `for_json`, numbers, lists, structs, maps and JSON stay what they are, and
        instants are in ISO 8601. Of columns with the same name, all but the first are renamed as in a DuckDB table:
        `a`, `a_1`. Raises QueryError, and WarehouseUnusable if a file is damaged, also while the batches are read.
        """
        with _explained():
            _check_reading(self.db, text)
            relation = self.db.sql(text)
            if relation is None:
                raise QueryError("The query is empty.")
            # A projection renames the columns.
            unique = relation.project("*")
            texts = [_as_text(f"#{n}", kind, for_json=for_json) for n, kind in enumerate(unique.types, 1)]
            named = zip(unique.columns, texts, strict=True)
            rows = unique.project(", ".join(f"{value} AS {quoted(name)}" for name, (value, _) in named))
        batches = _batches(rows, [is_json for _, is_json in texts])
        return Stream(tuple(unique.columns), tuple(map(str, unique.types)), batches)


def mentions_raw_media(query: str) -> bool:
    """Return whether a user's query may read the raw store."""
    return _RAW.search(query) is not None


def _check_reading(db: DuckDBPyConnection, query: str) -> None:
    """Raise QueryError unless all statements of a query only read; duckdb.Error when it cannot be parsed."""
    for statement in db.extract_statements(query):
        # DuckDB turns some pivots into two statements; the first, which has no text, creates an enum type.
        if statement.type not in {StatementType.SELECT, StatementType.EXPLAIN} and statement.query:
            raise QueryError(_ONLY_READING)
    query = _SPACE.sub(" ", query)
    tokens, text = tokenize(query), query.encode()
    for (start, kind), (after, _) in pairwise(tokens):
        name = _CALL.match(text[start:after].decode())
        if kind in _NAMES and name and text[after : after + 1] == b"(" and name[1].lower() in _ACTING:
            raise QueryError(f"{name[1].lower()} does not read the snapshot and is not allowed.")


def _as_text(column: str, kind: DuckDBPyType, *, for_json: bool) -> tuple[str, bool]:
    """Return the expression for the values of a column as text, and whether that is JSON, which `_embed` reads."""
    if for_json and (str(kind) == "JSON" or kind.id == "variant"):
        return f"{column}::JSON::VARCHAR", True
    # Members without names would all be one member.
    has_names = kind.id != "struct" or all(name for name, _ in kind.children)
    if for_json and kind.id in _JSON_TYPES and has_names:
        return f"to_json({column})::VARCHAR", True
    if for_json and kind.id == "timestamp with time zone":
        return rf"regexp_replace({column}::VARCHAR, '^([-\d]+) ([\d:.]+)\+00$', '\1T\2+00:00')", False
    return f"{column}::VARCHAR", False


def _batches(rows: DuckDBPyRelation, is_json: Sequence[bool]) -> Iterator[list[tuple[Any, ...]]]:
    with _explained():
        while batch := rows.fetchmany(_BATCH):
            yield [
                tuple(_embed(value) if embedded else value for value, embedded in zip(row, is_json, strict=True))
                for row in batch
            ]


def _embed(text: str | None) -> object:
    """Return JSON text to be embedded unchanged but for its spaces; text that is not strict JSON stays text."""
    try:
        return None if text is None else msgspec.Raw(msgspec.json.format(text, indent=0))
    except (msgspec.MsgspecError, RecursionError):
        return text


@contextmanager
def _explained() -> Iterator[None]:
    """Raise an error of a query as that of its text, or of a file that is damaged."""
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error, duckdb.IOException):
            fix = "`gramhouse publish` writes the snapshot again; if that does not help, check the disk"
        elif "arrow_scan: get_next failed" in str(error):
            # Of a part of the raw store; DuckDB does not say which.
            fix = "`gramhouse doctor` names the file; restore it from a backup"
        else:
            raise QueryError(str(error)) from error
        raise WarehouseUnusable(f"The query cannot be answered: {first_line(error)}. Fix: {fix}.") from error


@contextmanager
def open_snapshot(
    path: Path, *, with_raw: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[Snapshot]:
    """Open the snapshot for reading. `with_raw` adds `raw_media` and `raw_versions`, views of the raw store.

    `settings` are more settings of DuckDB, their values SQL.

    Raises SnapshotMissing and WarehouseUnusable; SnapshotUnreadable if a query within the block fails.
    """
    if not path.exists():
        raise SnapshotMissing(f"There is no snapshot at {path} yet. Fix: `gramhouse sync` creates it.")
    if left := logs(path):
        # DuckDB would replay it.
        what = f"{path} is not used: another program opened it for writing and left {left[0].name}"
        raise WarehouseUnusable(f"{what}. Fix: `gramhouse publish`; open the snapshot read-only.")
    try:
        db = duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise WarehouseUnusable(
            f"{path} cannot be read: {first_line(error)}. Fix: make it readable (chmod a+r), close any program that has"
            " it open for writing, or move it away and run `gramhouse publish`."
        ) from error
    try:
        for name, setting in {**_SETTINGS, **(settings or {}), "enable_external_access": "false"}.items():
            db.execute(f"SET {name} = {setting}")
        if with_raw:
            add_raw_media(db)
        db.execute("SET lock_configuration = true")
        yield Snapshot(db)
    except duckdb.Error as error:
        raise SnapshotUnreadable(error) from error
    finally:
        db.close()


def add_raw_media(db: DuckDBPyConnection) -> None:
    """Create the views of the raw store: `raw_media`, the newest bytes of each item, and `raw_versions`, all.

    pyarrow reads the files, because DuckDB does not verify the checksums of pages, and needs no access to files then.
    Raises WarehouseUnusable if the raw store cannot be read, or if columns are hidden.
    """
    # pyarrow would take most of the time of a short command, which rarely needs it.
    import pyarrow.dataset as ds  # noqa: PLC0415

    from connectors.warehouse.raw.parts import SCHEMA, find_parts  # noqa: PLC0415

    [(folder, hidden, merged_seq, raw_seq)] = db.execute(
        "SELECT raw_folder, hidden, merged_seq, raw_seq FROM core.published, core.warehouse"
    ).fetchall()
    if hidden is not None:
        raise WarehouseUnusable(
            "this snapshot has hidden columns, so the raw store cannot be read with it. Fix: unset GRAMHOUSE_HIDE and"
            " run `gramhouse publish --show-hidden`."
        )
    paths = [*find_parts(Path(folder), merged_seq=merged_seq).values()]
    if raw_seq > 0 and not paths:
        raise WarehouseUnusable(
            f"{folder} of the raw store cannot be read: it has no parts. Fix: make the folder readable here; if it was"
            " moved, run `gramhouse publish`."
        )
    checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=checked)
    db.register("raw_rows", ds.dataset(paths, SCHEMA, format=parquet))
    db.execute(_SQL["raw_media"])
