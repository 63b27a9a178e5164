"""Exports the snapshot: every table and view as Parquet for any engine, and a manifest."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.listed import ListedPart, listed_parts
from connectors.warehouse.raw.store import COLUMNS, check_part
from connectors.warehouse.snapshot.export_folder import FORMAT, MANIFEST, replaced
from connectors.warehouse.snapshot.reader import COLUMNS as RELATION_COLUMNS
from connectors.warehouse.snapshot.reader import RELATIONS, check_readable
from connectors.warehouse.storage.durable import sync, unreadable
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line
from connectors.warehouse.storage.quoting import literal, quoted
from models.feeds import SURFACES

_VERSION = 1

# The folder of the raw store in an export, and its name in the manifest; no table or view has this name.
_RAW = "raw-store"

_SETTINGS = {
    "TimeZone": "UTC",
    "memory_limit": "1GB",
    "enable_progress_bar": "false",
    # Files are written in sort order.
    "preserve_insertion_order": "true",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}

# One account's media fits into one or two row groups, and one row group per thread fits into memory.
_ROW_GROUP = 16_384

# Tables with all of these columns grow with the number of items and are partitioned by surface. Partitions by account
# would be a hundred thousand small files.
_OF_AN_ITEM = {"account_id", "surface", "media_id"}

# The sort order of these files, without columns that a table lacks. Typical queries read one account, newest first.
_ORDER = {
    "account_id": "", "published_at": " DESC", "media_id": "", "position": "", "metric": "", "observed_at": "",
    "valid_from": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    """A column of the files; `type` is DuckDB's name of the type."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file; `path` is relative to the export's folder."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ExportedTable:
    """A table or view. The values of the columns `partitioned_by` are in the names of folders, not in the files."""

    name: str
    kind: str
    comment: str | None
    partitioned_by: tuple[str, ...]
    rows: int
    bytes: int
    columns: tuple[ExportedColumn, ...]
    files: tuple[ExportedFile, ...]


@dataclass(frozen=True, slots=True)
class Export:
    """An export: the time and gramhouse version of the snapshot, and all of its tables."""

    published_at: datetime
    gramhouse: str
    exported_at: datetime
    tables: tuple[ExportedTable, ...]


def _portable(column: ExportedColumn) -> tuple[str, ExportedColumn]:
    """Return an expression that converts a column to a type that other engines can read, and the resulting column."""
    name = quoted(column.name)
    if column.type == "INTERVAL":
        comment = f"{column.comment or ''} In seconds.".strip()
        return f"epoch({name}) AS {name}", ExportedColumn(column.name, "DOUBLE", comment)
    if column.type.removesuffix("[]") == "JSON":
        kind = column.type.replace("JSON", "VARCHAR")
        return f"CAST({name} AS {kind}) AS {name}", ExportedColumn(column.name, kind, column.comment)
    return name, column


@contextmanager
def _opened(snapshot: Path) -> Iterator[DuckDBPyConnection]:
    check_readable(snapshot)
    with duckdb.connect() as db:
        try:
            for name, value in _SETTINGS.items():
                db.execute(f"SET {name} = '{value}'")
            db.execute(f"ATTACH {literal(str(snapshot.resolve()))} AS snapshot (TYPE duckdb, READ_ONLY)")
            db.execute("USE snapshot")
        except duckdb.Error as error:
            raise WarehouseUnusable(unreadable(snapshot, str(error))) from error
        yield db


def _shut(db: DuckDBPyConnection, files: Path, spill: Path) -> None:
    """Restrict the connection to writing the draft, because the SQL of views comes from the file."""
    db.execute(f"SET temp_directory = {literal(str(spill))}")
    allowed = ", ".join(literal(f"{folder}/") for folder in (files, spill))
    db.execute(f"SET allowed_directories = [{allowed}]")
    db.execute("SET enable_external_access = false")
    db.execute("SET lock_configuration = true")


def _copy(db: DuckDBPyConnection, query: str, files: Path, path: str) -> ExportedFile:
    file = files / path
    if not file.parent.exists():
        file.parent.mkdir(parents=True)
    copy = f"COPY ({query}) TO {literal(str(file))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})"
    ((rows,),) = db.execute(copy).fetchall()
    return _exported(files, path, rows)


def _exported(files: Path, path: str, rows: int) -> ExportedFile:
    file = files / path
    with file.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
        os.fsync(written.fileno())
    return ExportedFile(path, rows, file.stat().st_size, digest)


def _surfaces(db: DuckDBPyConnection, table: str) -> list[str]:
    # A surface without items gets an empty file, so that readers find an empty table instead of none.
    found = db.execute(f"SELECT DISTINCT surface FROM main.{quoted(table)}").fetchall()  # noqa: S608 - quoted
    return sorted({str(surface) for (surface,) in found} | set(SURFACES))


def _export_table(db: DuckDBPyConnection, files: Path, name: str, kind: str, comment: str | None) -> ExportedTable:
    columns = [ExportedColumn(*row) for row in db.execute(RELATION_COLUMNS, [name]).fetchall()]
    readings = [_portable(column) for column in columns]
    partitioned = {column.name for column in columns} >= _OF_AN_ITEM
    selected = ", ".join(
        expression for expression, column in readings if not (partitioned and column.name == "surface")
    )
    query = f"SELECT {selected} FROM main.{quoted(name)}"  # noqa: S608 - quoted
    stem = quote(name, safe="").replace(".", "%2E")
    if partitioned:
        names = {column.name for column in columns}
        order = ", ".join(quoted(name) + way for name, way in _ORDER.items() if name in names)
        written = [
            _copy(
                db,
                f"{query} WHERE surface = {literal(value)} ORDER BY {order}",
                files,
                f"{stem}/surface={quote(value, safe='')}/data.parquet",
            )
            for value in _surfaces(db, name)
        ]
    else:
        written = [_copy(db, query, files, f"{stem}.parquet")]
    return ExportedTable(
        name=name,
        kind=kind,
        comment=comment,
        partitioned_by=("surface",) if partitioned else (),
        rows=sum(file.rows for file in written),
        bytes=sum(file.bytes for file in written),
        columns=tuple(column for _, column in readings),
        files=tuple(written),
    )


def _copy_part(part: ListedPart, files: Path) -> ExportedFile:
    path = f"{_RAW}/{part.path.name}"
    file = files / path
    file.parent.mkdir(exist_ok=True)
    shutil.copyfile(part.path, file)
    check_part(part.path, part.bytes, part.checksum, copy=file)
    return _exported(files, path, part.rows)


def _export_raw(parts: Sequence[ListedPart], files: Path) -> ExportedTable:
    written = tuple(_copy_part(part, files) for part in parts)
    return ExportedTable(
        name=_RAW,
        kind="raw",
        comment="The raw store: every version of every media item exactly as it came.",
        partitioned_by=(),
        rows=sum(file.rows for file in written),
        bytes=sum(file.bytes for file in written),
        columns=tuple(ExportedColumn(name, kind, comment) for name, (kind, comment) in COLUMNS.items()),
        files=written,
    )


def _write_manifest(files: Path, export: Export) -> None:
    document = {"format": FORMAT, "format_version": _VERSION, **asdict(export)}
    text = json.dumps(document, indent=1, ensure_ascii=False, default=datetime.isoformat)
    with (files / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    for folder in (files, *(path for path in files.rglob("*") if path.is_dir())):
        sync(folder)


def _head(db: DuckDBPyConnection, snapshot: Path) -> tuple[datetime, str, Sequence[tuple[str, str, str | None]]]:
    try:
        ((published_at, version),) = db.execute("SELECT snapshot_at, version FROM main.published").fetchall()
        return published_at, version, sorted(db.execute(RELATIONS).fetchall())
    except (duckdb.Error, ValueError) as error:
        message = f"{snapshot} is not a gramhouse snapshot. Fix: check GRAMHOUSE_SNAPSHOT."
        raise WarehouseUnusable(message) from error


def export(snapshot: Path, folder: Path, *, at: datetime, with_raw: bool = False) -> Export:
    """Write every table and view of the snapshot, and a manifest, to a folder. An earlier export is replaced whole.

    `with_raw` adds the parts of the raw store that the snapshot lists. The warehouse is not opened, so a sync may run
    at the same time.

    Raises SnapshotMissing; WarehouseUnusable when the snapshot or one of these parts cannot be read, or when the folder
    cannot be written or contains other files than an export; WarehouseBusy when another export is writing to it. The
    folder is then unchanged.
    """
    with _opened(snapshot) as db:
        published_at, version, relations = _head(db, snapshot)
        parts = listed_parts(db) if with_raw else []
        try:
            with replaced(folder) as (files, spill):
                _shut(db, files, spill)
                tables = tuple(_export_table(db, files, *relation) for relation in relations)
                if with_raw:
                    tables = (*tables, _export_raw(parts, files))
                exported = Export(published_at, version, at, tables)
                _write_manifest(files, exported)
        except duckdb.Error as error:
            message = f"cannot export to {folder}: {first_line(error)}. The previous export is unchanged."
            raise WarehouseUnusable(message) from error
    return exported
