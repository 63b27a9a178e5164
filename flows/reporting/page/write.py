"""Writing the report, which replaces an earlier one atomically."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.durable import replace_file
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line, hint_for
from flows.config.errors import SettingsError
from flows.reporting.page.page import MARK, Page, make_page
from flows.reporting.progress import notices
from flows.reporting.reader import WEEKS
from models.partition import SURFACES


def is_report(path: Path) -> bool:
    """Return whether there is a report at a path. Raises OSError if a file there cannot be read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def check_place(path: Path) -> None:
    """Create the folder of a report. Raises SettingsError if something else is in its place, and WarehouseUnusable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_free = not path.exists() or is_report(path)
    except OSError as error:
        raise _refuse(path, error) from error
    if not is_free:
        raise SettingsError(f"{path} is not a gramhouse report and is not replaced. Fix: choose another file.")


def _refuse(path: Path, error: OSError) -> WarehouseUnusable:
    hint = hint_for(error, "Fix: choose a file in a writable folder.")
    return WarehouseUnusable(f"cannot write the report {path}: {error.strerror}. {hint}")


def write_page(
    snapshot: Path,
    path: Path,
    accounts: Sequence[str] = (),
    *,
    surfaces: Sequence[str] = SURFACES,
    weeks: int = WEEKS,
) -> Page:
    """Write the report of a snapshot to `path`, and return it.

    `accounts`, `surfaces` and `weeks` are those of `make_page`. Raises SnapshotMissing, SnapshotUnreadable and
    WarehouseUnusable, SettingsError for an unusable path, and SelectionError for an account that is not there.
    """
    with open_snapshot(snapshot) as opened:
        check_place(path)
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
