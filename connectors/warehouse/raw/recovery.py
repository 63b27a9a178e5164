"""Compares the raw store with the warehouse's list of parts whenever the warehouse is opened for writing."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from connectors.warehouse.raw.parts import Part, all_parts, next_number, store_of
from connectors.warehouse.raw.store import RawStore, part_name
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import WarehouseUnusable

# How long readers of an older snapshot may need a retired part after a snapshot without it was published.
_STILL_READ = timedelta(days=1)


def recover_parts(connection: Connection, *, now: datetime) -> None:
    """Remove leftover files of a killed merge or compaction, and retired parts that no reader needs any more.

    The connection must not be in a transaction. Raises WarehouseUnusable when a listed part is missing or has another
    size, or when there is a part that is not listed. The part with the next number is an exception: its transaction was
    not committed, so its rows are still in the segments or in older parts, and it is removed.
    """
    with connection.begin():
        store, parts, number = store_of(connection), all_parts(connection), next_number(connection)
    try:
        found = store.sizes()
        if (problem := _problem(store, parts, found, number)) is not None:
            raise WarehouseUnusable(problem)
        store.remove_drafts()
        if number in found:
            store.remove(number)
    except OSError as error:
        message = (
            f"the raw store {store.folder} cannot be used: {error.strerror}."
            " Fix: make the folder readable and writable, or set GRAMHOUSE_RAW to its current path."
        )
        raise WarehouseUnusable(message) from error
    remove_retired(connection, now=now)


def _problem(store: RawStore, parts: list[Part], found: Mapping[int, int], number: int) -> str | None:
    """Return one line about the first difference between the listed and the existing parts; None if there is none."""
    restore = "Fix: restore the folder, or set GRAMHOUSE_RAW to its current path."
    for part in parts:
        if part.retired_at is not None:
            continue
        if part.number not in found:
            return (
                f"the raw store {store.folder} lacks {part_name(part.number)}, which the warehouse refers to. {restore}"
            )
        if found[part.number] != part.bytes:
            return (
                f"{store.path(part.number)} has {found[part.number]:,} bytes and should have {part.bytes:,}."
                " Fix: restore the file."
            )
    strange = sorted(found.keys() - {part.number for part in parts} - {number})
    if strange:
        return (
            f"{store.path(strange[0])} is not known to the warehouse: that is an older copy, or the file is of another"
            " one. It may be the only copy of what it holds. Fix: restore the newest warehouse file, or move"
            " the file away."
        )
    return None


def remove_retired(connection: Connection, *, now: datetime) -> int:
    """Delete retired parts that no snapshot of the last day lists; return how many. Call it outside of a transaction.

    Raises WarehouseUnusable when a file cannot be deleted; the next call tries again.
    """
    with connection.begin():
        store, parts = store_of(connection), all_parts(connection)
    old = [part.number for part in parts if part.unlisted_at is not None and part.unlisted_at + _STILL_READ <= now]
    try:
        for number in old:
            store.remove(number)
    except OSError as error:
        message = f"cannot delete an obsolete part from {store.folder}: {error.strerror}."
        raise WarehouseUnusable(message) from error
    if old:
        with connection.begin():
            connection.db.execute("DELETE FROM ops.raw_parts WHERE list_contains(?, number)", [old])
    return len(old)
