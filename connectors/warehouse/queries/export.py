"""Exports the snapshot: each table and view as a Parquet file in a folder."""

import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.durable import sync
from connectors.warehouse.storage.errors import SnapshotUnreadable, WarehouseUnusable, first_line
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted

# Every file of an export has this key in its metadata.
_MARK = "gramhouse"

# One account's media fits into one or two row groups, and one row group per thread fits into memory.
_ROW_GROUP = 16_384

# Tables with these columns grow with the items; sorted by them, readers skip row groups of other accounts.
_KEY = ("account_id", "surface", "media_id")


@dataclass(frozen=True, slots=True)
class ExportedTable:
    """An exported table or view: its name, kind (table, view, or raw for the raw store), rows and bytes of its file."""

    name: str
    kind: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Export:
    """What was exported, and when the snapshot was published."""

    published_at: datetime
    tables: tuple[ExportedTable, ...]


def export(snapshot: Path, folder: Path, *, with_raw: bool = False) -> Export:
    """Write every table and view of the snapshot to a folder, in place of the Parquet files of an earlier export.

    `with_raw` adds `raw_versions`, every version of every item exactly as it came. The warehouse is not opened, so a
    sync may run at the same time. All files are written before the first one is renamed to its place.

    Raises SnapshotMissing; WarehouseUnusable when the snapshot or the raw store cannot be read, or when the folder
    cannot be written or has another Parquet file. The earlier export is then unchanged.
    """
    # If the folder is a symbolic link, its target is written to.
    target = real(folder)
    draft = target.with_name(f".{target.name}.exporting")
    try:
        # What an export that was killed has left.
        shutil.rmtree(draft, ignore_errors=True)
        # Fails for a link, which would lead elsewhere.
        draft.mkdir(parents=True)
        try:
            exported = _write_all(snapshot, draft, folder, with_raw=with_raw)
            _put_in_place(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise WarehouseUnusable(
            f"cannot export to {folder}: {error.strerror or error}. Fix: free space, or choose a folder that can be"
            " written."
        ) from error
    return exported


def _write_all(snapshot: Path, draft: Path, folder: Path, *, with_raw: bool) -> Export:
    # The SQL of views comes from the file: it must not read or write anywhere else.
    settings = {
        "temp_directory": literal(str(draft / ".spill")),
        "allowed_directories": f"[{literal(f'{draft}/')}]",
        "memory_limit": "'1GB'",
    }
    with open_snapshot(snapshot, with_raw=with_raw, settings=settings) as opened:
        try:
            [(published_at, version)] = opened.query("SELECT snapshot_at, version FROM main.published").rows
        except (SnapshotUnreadable, ValueError) as error:
            raise WarehouseUnusable(
                f"{snapshot} is not a gramhouse snapshot. Fix: check GRAMHOUSE_SNAPSHOT."
            ) from error
        names = [(one["name"], one["kind"]) for one in opened.relations() if one["kind"] != "macro"]
        try:
            written = [_write(opened, draft, name, kind, str(version)) for name, kind in sorted(names)]
            if with_raw:
                written.append(_write(opened, draft, "raw_versions", "raw", str(version)))
        except duckdb.Error as error:
            fix = "Fix: free space, run `gramhouse publish`, or look for damage with `gramhouse doctor`."
            raise WarehouseUnusable(f"cannot export to {folder}: {first_line(error)}. {fix}") from error
    return Export(published_at, tuple(written))


def _write(opened: Snapshot, draft: Path, name: str, kind: str, version: str) -> ExportedTable:
    path = draft / f"{quote(name, safe='').replace('.', '%2E')}.parquet"
    relation = quoted(name) if kind == "raw" else quoted("main", name)
    columns = {column for column, *_ in opened.db.execute(f"DESCRIBE {relation}").fetchall()}
    order = f" ORDER BY {', '.join(_KEY)}" if kind != "raw" and columns.issuperset(_KEY) else ""
    [(rows,)] = opened.db.execute(
        f"COPY (FROM {relation}{order}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd,"
        f" ROW_GROUP_SIZE {_ROW_GROUP}, KV_METADATA {{{_MARK}: {literal(version)}}})"
    ).fetchall()
    sync(path)
    return ExportedTable(name, kind, rows, path.stat().st_size)


def _put_in_place(draft: Path, folder: Path) -> None:
    """Rename all files to their places, and delete those of an earlier export that this one lacks."""
    folder.mkdir(exist_ok=True)
    before = [*folder.glob("*.parquet")]
    for path in before:
        if not _is_exported(path):
            raise WarehouseUnusable(
                f"cannot export to {folder}: {path.name} is not part of a gramhouse export. Fix: move it away, or"
                " choose another folder."
            )
    made = [path.replace(folder / path.name) for path in draft.glob("*.parquet")]
    for path in {*before} - {*made}:
        path.unlink()
    sync(folder)


def _is_exported(path: Path) -> bool:
    if path.is_symlink():
        return False
    try:
        return _MARK.encode() in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False
