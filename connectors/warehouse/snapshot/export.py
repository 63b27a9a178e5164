"""Exports the snapshot: every table and view as Parquet for any engine, and a manifest."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
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
from connectors.warehouse.storage.paths import real
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


# What the manifest says of a table, a column or a file.
Described = dict[str, Any]


@contextmanager
def _opened(snapshot: Path) -> Iterator[DuckDBPyConnection]:
    check_readable(snapshot)
    with duckdb.connect() as db:
        try:
            for name, value in _SETTINGS.items():
                db.execute(f"SET {name} = '{value}'")
            db.execute(f"ATTACH {literal(str(real(snapshot)))} AS snapshot (TYPE duckdb, READ_ONLY)")
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


def _copy(db: DuckDBPyConnection, query: str, files: Path, path: str) -> Described:
    file = files / path
    if not file.parent.exists():
        file.parent.mkdir(parents=True)
    copy = f"COPY ({query}) TO {literal(str(file))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})"
    ((rows,),) = db.execute(copy).fetchall()
    return _file(files, path, rows)


def _file(files: Path, path: str, rows: int) -> Described:
    """Make a file durable, and return its description; `path` is relative to the export's folder."""
    with (files / path).open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
        os.fsync(written.fileno())
        return {"path": path, "rows": rows, "bytes": os.fstat(written.fileno()).st_size, "sha256": digest}


def _surfaces(db: DuckDBPyConnection, table: str) -> list[str]:
    # A surface without items gets an empty file, so that readers find an empty table instead of none.
    found = db.execute(f"SELECT DISTINCT surface FROM main.{quoted(table)}").fetchall()  # noqa: S608 - quoted
    return sorted({str(surface) for (surface,) in found} | set(SURFACES))


def _table(relation: Sequence[Any], columns: Iterable[Sequence[Any]], files: list[Described]) -> Described:
    """Return the description of a table or view; each column has a name, DuckDB's name of its type, and a comment."""
    return {
        **dict(zip(("name", "kind", "comment"), relation, strict=True)),
        "partitioned_by": [],
        "rows": sum(file["rows"] for file in files),
        "bytes": sum(file["bytes"] for file in files),
        "columns": [dict(zip(("name", "type", "comment"), column, strict=True)) for column in columns],
        "files": files,
    }


def _export_table(db: DuckDBPyConnection, files: Path, relation: Sequence[Any]) -> Described:
    name, *_ = relation
    columns = db.execute(RELATION_COLUMNS, [name]).fetchall()
    names = {column for column, *_ in columns}
    stem = quote(name, safe="").replace(".", "%2E")
    if not names >= _OF_AN_ITEM:
        return _table(relation, columns, [_copy(db, f"FROM main.{quoted(name)}", files, f"{stem}.parquet")])
    order = ", ".join(quoted(one) + way for one, way in _ORDER.items() if one in names)
    rows = f"SELECT * EXCLUDE (surface) FROM main.{quoted(name)}"  # noqa: S608 - quoted
    written = [
        _copy(
            db,
            f"{rows} WHERE surface = {literal(value)} ORDER BY {order}",
            files,
            f"{stem}/surface={quote(value, safe='')}/data.parquet",
        )
        for value in _surfaces(db, name)
    ]
    # The values of these columns are in the names of folders, not in the files.
    return _table(relation, columns, written) | {"partitioned_by": ["surface"]}


def _copy_part(part: ListedPart, files: Path) -> Described:
    path = f"{_RAW}/{part.path.name}"
    file = files / path
    file.parent.mkdir(exist_ok=True)
    shutil.copyfile(part.path, file)
    check_part(part.path, part.bytes, part.checksum, copy=file)
    return _file(files, path, part.rows)


def _export_raw(parts: Sequence[ListedPart], files: Path) -> Described:
    comment = "The raw store: every version of every media item exactly as it came."
    columns = [(name, *about) for name, about in COLUMNS.items()]
    return _table((_RAW, "raw", comment), columns, [_copy_part(part, files) for part in parts])


def _write_manifest(files: Path, manifest: Described) -> None:
    text = json.dumps(manifest, indent=1, ensure_ascii=False, default=datetime.isoformat)
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
        raise WarehouseUnusable(f"{snapshot} is not a gramhouse snapshot. Fix: check GRAMHOUSE_SNAPSHOT.") from error


def export(snapshot: Path, folder: Path, *, at: datetime, with_raw: bool = False) -> Described:
    """Write every table and view of the snapshot, and a manifest, to a folder. An earlier export is replaced whole.

    Return the manifest. `with_raw` adds the parts of the raw store that the snapshot lists. The warehouse is not
    opened, so a sync may run at the same time.

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
                tables = [_export_table(db, files, relation) for relation in relations]
                manifest = {
                    "format": FORMAT,
                    "format_version": _VERSION,
                    "published_at": published_at,
                    "gramhouse": version,
                    "exported_at": at,
                    "tables": [*tables, _export_raw(parts, files)] if with_raw else tables,
                }
                _write_manifest(files, manifest)
        except duckdb.Error as error:
            raise WarehouseUnusable(
                f"cannot export to {folder}: {first_line(error)}. The previous export is unchanged."
            ) from error
    return manifest
