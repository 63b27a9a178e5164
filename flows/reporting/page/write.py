"""Writing the report, which replaces an earlier one atomically."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.durable import replace_file
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line, hint_for
from connectors.warehouse.storage.paths import real
from flows.config.errors import SettingsError
from flows.reporting.page.page import MARK, Page, make_page
from flows.reporting.progress import notices
from flows.reporting.reader import WEEKS
from models.feeds import SURFACES


def is_report(path: Path) -> bool:
    """Return whether there is a report at a path. Raises OSError if a file there cannot be read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def check_place(path: Path, *databases: Path) -> None:
    """Check that a path is free or an earlier report, is not that of a database, and that its folder is writable.

    Raises SettingsError and WarehouseUnusable.
    """
    taken = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if real(path) in set(map(real, databases)):
            taken = "is reserved for a database"
        elif path.is_dir():
            taken = "is a folder"
        elif path.exists() and not (path.is_file() and (path.stat().st_size == 0 or is_report(path))):
            taken = "is not a gramhouse report and is not replaced"
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refuse(path, error) from error
    if taken is not None:
        raise SettingsError(f"{path} {taken}. Fix: choose another file.")


def _refuse(path: Path, error: OSError) -> WarehouseUnusable:
    is_no_folder = isinstance(error, (FileExistsError, NotADirectoryError))
    why = f"{path.parent} is not a folder" if is_no_folder else error.strerror
    hint = hint_for(error, "Fix: choose a file in a writable folder.")
    return WarehouseUnusable(f"cannot write the report {path}: {why}. {hint}")


def write_page(
    snapshot: Path,
    path: Path,
    accounts: Sequence[str] = (),
    *,
    surfaces: Sequence[str] = SURFACES,
    weeks: int = WEEKS,
    apart_from: Path | None = None,
) -> Page:
    """Write the report of a snapshot to `path`, which must not be the warehouse, `apart_from`, and return it.

    `accounts`, `surfaces` and `weeks` are those of `make_page`. Raises SnapshotMissing, SnapshotUnreadable and
    WarehouseUnusable, and SettingsError for an unusable path or account.
    """
    with open_snapshot(snapshot) as opened:
        check_place(path, *filter(None, (snapshot, apart_from)))
        page = make_page(opened, accounts, surfaces=surfaces, weeks=weeks)
    try:
        replace_file(path, page.html.encode())
    except OSError as error:
        raise _refuse(path, error) from error
    return page


async def renew_page(snapshot: Path, path: Path) -> Path | None:
    """Write the report of a snapshot that was just published; if this fails, say so in one line and return None."""
    try:
        await asyncio.to_thread(write_page, snapshot, path)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the page, the snapshot is published
        notices.warning(f"The report was not updated: {first_line(error)}")
        return None
    return path
