"""Which file a snapshot replaces: only a snapshot of the same warehouse that hides no more."""

import os
from pathlib import Path

import duckdb

from connectors.warehouse.storage.files import is_duckdb
from models.files import SnapshotHides, WarehouseUnusable, first_line

HASH = ":hash"
"""Follows a name in GRAMHOUSE_HIDE if a hash replaces the values."""


def check_file(snapshot: Path) -> None:
    """Raise WarehouseUnusable unless the path is free, or has a DuckDB file."""
    # Of files, so that it waits for no pipe; and a link may lead elsewhere.
    is_file = snapshot.is_file() and not snapshot.is_symlink() and os.access(snapshot, os.R_OK)
    if os.path.lexists(snapshot) and not (is_file and is_duckdb(snapshot)):
        raise WarehouseUnusable(
            f"{snapshot} is not a DuckDB file that can be read, and is not replaced."
            " Fix: check GRAMHOUSE_SNAPSHOT; if it is correct, move that file away."
        )


def check_snapshot(snapshot: Path) -> tuple[str, str | None] | None:
    """Return the id of a snapshot's warehouse and what is hidden, or None if the path is free.

    Raises WarehouseUnusable if the path has anything else than a snapshot that can be read.
    """
    check_file(snapshot)
    if not snapshot.exists():
        return None
    try:
        with duckdb.connect(str(snapshot), read_only=True) as reader:
            [(owner, hidden)] = reader.execute("SELECT warehouse_id, hidden FROM core.published").fetchall()
    except (duckdb.Error, ValueError) as error:
        raise WarehouseUnusable(
            f"{snapshot} cannot be read as a snapshot ({first_line(error)}) and is not replaced."
            " Fix: close the program that has it open for writing, or move it away."
        ) from error
    return owner, hidden


def check_replaceable(snapshot: Path, owner: str, hides: str, *, may_show: bool) -> None:
    """Raise WarehouseUnusable unless the path is free, or has a snapshot of this warehouse that hides no more.

    `hides` is what the next snapshot hides. With `may_show` it may show what the one before hid.
    """
    its_owner, hidden = check_snapshot(snapshot) or (owner, None)
    if its_owner != owner:
        raise WarehouseUnusable(another_warehouse(str(snapshot)))
    before, now = ({*names.split(",")} - {""} for names in (hidden or "", hides))
    # A hash shows which values are equal, so it shows less than the value, and more than nothing.
    shown = sorted(name for name in before - now if name.removesuffix(HASH) not in now)
    if shown and not may_show:
        raise SnapshotHides(
            f"{snapshot} hides {', '.join(shown)}, and the next snapshot would show it. The previous snapshot is"
            f" unchanged. Fix: set GRAMHOUSE_HIDE={hidden}, or run `gramhouse publish --show-hidden`."
        )


def another_warehouse(snapshot: str) -> str:
    """Return why a snapshot of another warehouse is not replaced; `snapshot` is its path or address."""
    return (
        f"{snapshot} is the snapshot of another warehouse and is not replaced. Fix: check GRAMHOUSE_WAREHOUSE (is its"
        " disk mounted?) and GRAMHOUSE_SNAPSHOT; if both are correct, move that snapshot away."
    )
