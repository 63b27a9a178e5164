"""Writing the report: to a temporary file in the same folder, then renamed, so that it is replaced atomically."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.durable import open_without_symlinks
from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.config.errors import SettingsError
from flows.config.release import release
from flows.reporting.page.page import MARK, Report, make
from flows.reporting.reader import Scope


def check_place(path: Path, *databases: Path) -> None:
    """Check that a path is free or an earlier report, is not that of a database, and that its folder is writable.

    Raises SettingsError and WarehouseUnusable.
    """
    fix = "Fix: choose another file."
    if path.resolve() in {database.resolve() for database in databases}:
        message = f"{path} is reserved for a database. {fix}"
        raise SettingsError(message)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            message = f"{path} is a folder. {fix}"
            raise SettingsError(message)
        if path.exists():
            if not path.is_file():
                message = f"{path} is not a regular file. {fix}"
                raise SettingsError(message)
            with path.open("rb") as file:
                head = file.read(len(MARK))
            if head not in (b"", MARK.encode()):
                message = f"{path} is not a gramhouse report and is not replaced. {fix}"
                raise SettingsError(message)
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: Path, error: OSError) -> WarehouseUnusable:
    why = (
        f"{path.parent} is not a folder" if isinstance(error, (FileExistsError, NotADirectoryError)) else error.strerror
    )
    return WarehouseUnusable(f"cannot write the report {path}: {why}. Fix: choose a file in a writable folder.")


def write(snapshot: Path, path: Path, scope: Scope | None = None, *, apart_from: Path | None = None) -> Report:
    """Write the report of a snapshot to `path`, which must not be the warehouse, `apart_from`, and return it.

    Raises SnapshotMissing, WarehouseUnusable and QueryError, and SettingsError for an unusable path or account.
    """
    check_place(path, *filter(None, (snapshot, apart_from)))
    with open_snapshot(snapshot) as opened:
        report = make(opened, scope or Scope(), release=release())
    draft = path.with_name(f".{path.name}.next")
    try:
        draft.unlink(missing_ok=True)
        try:
            with open(draft, "xb", opener=open_without_symlinks) as file:
                file.write(report.html.encode())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise _refused(path, error) from error
    return report
