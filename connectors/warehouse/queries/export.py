"""Exports the snapshot: each table and view as a Parquet file in a folder."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.storage.files import real, sync
from connectors.warehouse.storage.sql import literal, quoted
from models.files import SnapshotUnreadable, WarehouseUnusable, first_line

# Every file of an export has this key in its metadata.
_MARK = "gramhouse"

# One account's media fits into one or two row groups, and one row group per thread fits into memory.
_ROW_GROUP = 16_384

# Tables with these columns grow with the items; sorted by them, readers skip row groups of other accounts.
_KEY = ("account_id", "surface", "media_id")


def export(snapshot: Path, folder: Path, *, with_raw: bool = False) -> tuple[datetime, Sequence[Record]]:
    """Write every table and view of the snapshot to a folder, in place of the Parquet files of an earlier export.

    `with_raw` adds `raw_versions`, every version of every item exactly as it came. The warehouse is not opened, so a
    sync may run at the same time. All files are written before the first one is renamed to its place.

    Returns when the snapshot was published, and for each table its name, kind (table, view, or raw for the raw store),
    rows, and bytes of its file. Raises SnapshotMissing; WarehouseUnusable when the snapshot or the raw store cannot be
    read, or when the folder cannot be written or has another Parquet file. The earlier export is then unchanged.
    """
    # If the folder is a symbolic link, its target is written to.
    target = real(folder)
    # Within the folder, which may be a file system of its own.
    draft, is_new = target / ".exporting", not target.exists()
    # The SQL of views comes from the file: it must not read or write anywhere else.
    settings = {
        "temp_directory": literal(str(draft / ".spill")),
        "allowed_directories": f"[{literal(f'{draft}/')}]",
        "memory_limit": "'1GB'",
    }
    # What an export that was killed has left; a link, which would lead elsewhere, stays, so that `mkdir` fails.
    shutil.rmtree(draft, ignore_errors=True)
    try:
        before = [*target.glob("*.parquet")]
        if foreign := next((path for path in before if not _is_exported(path)), None):
            raise WarehouseUnusable(
                f"cannot export to {folder}: {foreign.name} is not part of a gramhouse export. Fix: move it away, or"
                " choose another folder."
            )
        draft.mkdir(parents=True)
        with open_snapshot(snapshot, with_raw=with_raw, settings=settings) as opened:
            [published] = opened.query("SELECT snapshot_at, version FROM main.published")
            names = sorted((one["name"], one["kind"]) for one in opened.relations() if one["kind"] != "macro")
            names += [("raw_versions", "raw")] if with_raw else []
            exported = [_write(opened, draft, name, kind, str(published["version"])) for name, kind in names]
        made = [path.replace(target / path.name) for path in draft.glob("*.parquet")]
        for path in {*before} - {*made}:
            path.unlink()
        sync(target)
    except (OSError, SnapshotUnreadable) as error:
        # Of one that cannot be read, what DuckDB says.
        raise WarehouseUnusable(
            f"cannot export to {folder}: {first_line(str(error.__cause__ or error))}. Fix: free space, choose a folder"
            " that can be written, or check the snapshot with `gramhouse doctor`."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if is_new:
            # After an error it is empty.
            with suppress(OSError):
                target.rmdir()
    return published["snapshot_at"], exported


def _write(opened: Snapshot, draft: Path, name: str, kind: str, version: str) -> Record:
    path = draft / f"{quote(name, safe='').replace('.', '%2E')}.parquet"
    relation = quoted(name) if kind == "raw" else quoted("main", name)
    columns = {column for column, *_ in opened.db.execute(f"DESCRIBE {relation}").fetchall()}
    order = f" ORDER BY {', '.join(_KEY)}" if kind != "raw" and columns.issuperset(_KEY) else ""
    [(rows,)] = opened.db.execute(
        f"COPY (FROM {relation}{order}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd,"
        f" ROW_GROUP_SIZE {_ROW_GROUP}, KV_METADATA {{{_MARK}: {literal(version)}}})"
    ).fetchall()
    sync(path)
    return {"name": name, "kind": kind, "rows": rows, "bytes": path.stat().st_size}


def _is_exported(path: Path) -> bool:
    if path.is_symlink():
        return False
    try:
        return _MARK.encode() in (pq.read_metadata(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False
