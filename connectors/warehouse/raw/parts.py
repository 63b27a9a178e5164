"""The warehouse's list of raw store parts. A merge or compaction adds a part in its own transaction."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from datetime import datetime

import duckdb

from connectors.warehouse.raw.store import COLUMNS, RawStore, check_part, checksum_of, parquet, part_name
from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line
from connectors.warehouse.storage.quoting import literal

# Small row groups, so that reading a few thousand landing numbers does not decompress many other rows.
_ROW_GROUP = 20_480

# Compared to zstd's default level, 3, a merge takes a third less work for 7 % more bytes. Compaction uses a higher one.
_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Part:
    """A part in the warehouse's list; sizes in bytes. `retired_at` is None while new snapshots list the part."""

    number: int
    rows: int
    bytes: int
    first_landed: int
    last_landed: int
    oldest_seen_at: datetime
    checksum: str
    retired_at: datetime | None = None
    unlisted_at: datetime | None = None


_PARTS = f"SELECT {', '.join(field.name for field in fields(Part))} FROM ops.raw_parts ORDER BY number"  # noqa: S608

_LAST_PART = "SELECT warehouse_id, raw_parts, token FROM ops.warehouse"


def store_of(connection: Connection) -> RawStore:
    """Return the raw store of this warehouse."""
    return last_part(connection)[0]


def last_part(connection: Connection) -> tuple[RawStore, int, str]:
    """Return the raw store, the number of the last committed part, or 0, and the token of the process that writes.

    Numbers of committed parts are never reused.
    """
    # One statement, because each merge needs it twice.
    [(warehouse, number, token)] = connection.db.execute(_LAST_PART).fetchall()
    return RawStore(connection.raw_folder / warehouse / "media"), number, token


def all_parts(connection: Connection) -> list[Part]:
    """Return all parts in the order of their numbers."""
    return [Part(*row) for row in connection.db.execute(_PARTS).fetchall()]


def live_parts(connection: Connection) -> list[Part]:
    """Return the parts that are not retired, in the order of landing.

    Together they contain every row exactly once.
    """
    found = (part for part in all_parts(connection) if part.retired_at is None)
    return sorted(found, key=lambda part: part.first_landed)


def check_parts(connection: Connection, parts: Iterable[Part]) -> None:
    """Compare the files of these parts with size and checksum.

    Raises WarehouseUnusable, which names the first part that is damaged or cannot be read.
    """
    store = store_of(connection)
    for part in parts:
        check_part(store.path(part.number), part.bytes, part.checksum)


def sources(connection: Connection, parts: Collection[Part]) -> str:
    """Return the SQL expression that reads these parts, after `check_parts`."""
    check_parts(connection, parts)
    store = store_of(connection)
    return parquet(store.path(part.number) for part in parts)


def write_part(connection: Connection, query: str, *, level: int = _LEVEL) -> Part | None:
    """Write the rows of a query to the next part, and add the part to the list in the open transaction.

    A transaction writes one part.

    The query has the columns `COLUMNS`. Its rows should be roughly in the order of landing, because readers look for
    ranges of landing numbers.

    The file, compressed with zstd at `level`, is a durable draft when this returns. Call `confirm_part` after the
    commit, and before the next part is written; if the transaction is not committed, the next draft replaces this one.
    Returns None, and leaves no file, if the query has no rows. Raises WarehouseUnusable when the folder cannot be
    written.
    """
    store, last, token = last_part(connection)
    number = last + 1
    draft = store.draft(number, token)
    # DuckDB's own temporary file would only add a rename. Its statistics save another evaluation of the query.
    copy = (
        f"COPY (SELECT {', '.join(COLUMNS)} FROM ({query})) TO {literal(str(draft))}"  # noqa: S608
        f" (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {level}, ROW_GROUP_SIZE {_ROW_GROUP},"
        " USE_TMP_FILE false, RETURN_STATS true)"
    )
    try:
        with store.writing(draft):
            copied = connection.db.execute(copy).fetchall()
        rows = sum(row[1] for row in copied)
        if not rows:
            draft.unlink()
            return None
        size, checksum = draft.stat().st_size, checksum_of(draft)
    except OSError as error:
        raise _refused(store, str(error.strerror)) from error
    except duckdb.IOException as error:
        raise _refused(store, first_line(error)) from error
    [(*_, statistics, _)] = copied
    landed, oldest = statistics['"landed"'], datetime.fromisoformat(statistics['"seen_at"']["min"])
    part = Part(number, rows, size, int(landed["min"]), int(landed["max"]), oldest, checksum)
    append(connection, "ops.raw_parts", [part])
    connection.db.execute("UPDATE ops.warehouse SET raw_parts = ?", [number])
    return part


def confirm_part(connection: Connection) -> None:
    """Give the part of the last committed transaction its final name, unless it has it already.

    The connection must not be in a transaction. Raises WarehouseUnusable.
    """
    with connection.begin():
        store, number, token = last_part(connection)
    draft = store.draft(number, token)
    try:
        if draft.exists():
            store.keep(draft, number)
    except OSError as error:
        raise _refused(store, f"{part_name(number)}: {error.strerror}") from error


def _refused(store: RawStore, why: str) -> WarehouseUnusable:
    return WarehouseUnusable(
        f"cannot write the raw store {store.folder}: {why}. Landed pages are kept."
        " Fix: free disk space or make the folder writable, or move it and set GRAMHOUSE_RAW."
    )


def mark_unlisted(connection: Connection, *, at: datetime) -> None:
    """Record, in the open transaction, that a snapshot without the retired parts was published."""
    waiting = "retired_at IS NOT NULL AND unlisted_at IS NULL"
    connection.db.execute(f"UPDATE ops.raw_parts SET unlisted_at = ? WHERE {waiting}", [at])  # noqa: S608 - constant
