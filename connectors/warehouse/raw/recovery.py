"""Compares the raw store with the warehouse's list of parts whenever the warehouse is opened for writing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial

from connectors.warehouse.raw.parts import Part, all_parts, confirm_part, last_part, live_parts, store_of
from connectors.warehouse.raw.store import RawStore, check_part, part_name
from connectors.warehouse.storage.connection import Connection, read_identity
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable, hint_for
from connectors.warehouse.storage.holder import Held, lock

# How long readers of an older snapshot may need a retired part after a snapshot without it was published.
_STILL_READ = timedelta(days=1)


@contextmanager
def hold_store(connection: Connection, activity: str, *, since: str, pause: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock of the raw store, so that no copy of this warehouse is open for writing at the same time.

    The connection must not be in a transaction. Raises WarehouseBusy, and WarehouseUnusable when the folder is missing
    or cannot be written.
    """
    with connection.begin():
        store, parts = store_of(connection), live_parts(connection)
    if parts and not store.folder.is_dir():
        raise WarehouseUnusable(_lacking(store, parts[0]))
    with ExitStack() as held:
        try:
            with _usable(store):
                held.enter_context(lock(store.folder.with_name("lock"), activity, since=since, pause=pause))
        except Held as other:
            raise WarehouseBusy(
                f"the raw store {store.folder} is held by {other}, with another copy of this warehouse. Fix: wait until"
                " it has finished, then keep only the newest copy."
            ) from None
        yield


def recover_parts(connection: Connection, *, now: datetime) -> None:
    """Finish what a killed process left in the raw store, and delete retired parts that no reader needs any more.

    The connection must not be in a transaction. Raises WarehouseUnusable when a listed part is missing or has another
    size, or when there is a part that is not listed: that part may be the only copy of its rows, so it is neither
    deleted nor replaced. Then nothing is changed.
    """
    confirm_part(connection)
    with connection.begin():
        store, parts, token = store_of(connection), all_parts(connection), read_identity(connection).token
    with _usable(store):
        if (problem := _problem(store, parts, store.sizes())) is not None:
            raise WarehouseUnusable(problem)
        # Drafts of this warehouse's last process: their rows are still in the inbox or in older parts. Any other
        # draft was written with another copy of the warehouse.
        store.remove_drafts(token)
    remove_retired(connection, now=now)


def check_store(connection: Connection) -> Iterator[Callable[[], None]]:
    """Compare the raw store with the list of parts; yield a function for each part that compares its contents.

    Nothing is changed. Both raise WarehouseUnusable.
    """
    store, last, token = last_part(connection)
    # A killed process may have committed a part that does not have its final name yet.
    draft = store.draft(last, token)
    with _usable(store):
        unnamed = {last: draft} if draft.exists() else {}
        found = {**store.sizes(), **{number: path.stat().st_size for number, path in unnamed.items()}}
        if (problem := _problem(store, all_parts(connection), found)) is not None:
            raise WarehouseUnusable(problem)
    for part in live_parts(connection):
        path = store.path(part.number)
        yield partial(check_part, path, part.bytes, part.checksum, copy=unnamed.get(part.number))


@contextmanager
def _usable(store: RawStore) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = hint_for(error, "Fix: make the folder readable and writable, or set GRAMHOUSE_RAW to its current path.")
        raise WarehouseUnusable(f"the raw store {store.folder} cannot be used: {error.strerror}. {hint}") from error


def _lacking(store: RawStore, part: Part) -> str:
    return (
        f"the raw store {store.folder} lacks {part_name(part.number)}, which the warehouse refers to."
        " Fix: restore the folder, or set GRAMHOUSE_RAW to its current path."
    )


def _problem(store: RawStore, parts: list[Part], found: Mapping[int, int]) -> str | None:
    """Return one line about the first difference between the listed and the existing parts; None if there is none."""
    for part in parts:
        if part.number not in found:
            # A retired part is missing if the process that deleted it was killed.
            if part.retired_at is None:
                return _lacking(store, part)
        elif found[part.number] != part.bytes:
            return (
                f"{store.path(part.number)} has {found[part.number]:,} bytes and should have {part.bytes:,}."
                " Fix: restore the file."
            )
    if strange := sorted(found.keys() - {part.number for part in parts}):
        return (
            f"{store.path(strange[0])} is not known to the warehouse: this warehouse file is older than its raw store,"
            " or the part is another warehouse's. It may be the only copy of its rows. Fix: restore the newest"
            " warehouse file, or move the part away."
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
        raise WarehouseUnusable(f"cannot delete an obsolete part from {store.folder}: {error.strerror}.") from error
    if old:
        with connection.begin():
            connection.db.execute("DELETE FROM ops.raw_parts WHERE list_contains(?, number)", [old])
    return len(old)
