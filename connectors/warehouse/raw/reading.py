"""Reads the payloads of stored rows from the raw store, in batches of a few thousand."""

from collections.abc import Iterator

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.parts import live_parts, sources, store_of
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.errors import WarehouseUnusable

# The most payloads in memory at once.
_PAYLOADS_PER_BATCH = 16_384

_LASTS = f"""
SELECT max(landed) FROM (
    SELECT landed, (row_number() OVER (ORDER BY landed) - 1) // {_PAYLOADS_PER_BATCH} AS batch FROM raw_wanted
) GROUP BY batch ORDER BY batch
"""  # noqa: S608 - constants


def stored_payloads(connection: Connection, table: str, at: str) -> Iterator[pa.Table]:
    """Yield the payloads of a table's rows, in batches, in the open transaction.

    Columns: `order_key` (the row's rowid), `payload` (text), `received_at` (the column `at` of the row). The rowids
    must not change during the iteration. Raises WarehouseUnusable when a part is damaged or cannot be read, and at the
    end if the payload of a row is in none of the parts.
    """
    db = connection.db
    lacking = int(value(db, f"SELECT count(*) FROM {table}"))  # noqa: S608 - a constant
    for part in live_parts(connection):
        db.execute(
            "CREATE OR REPLACE TEMP TABLE raw_wanted AS"  # noqa: S608 - constants
            f" SELECT raw_landed AS landed, rowid AS order_key, {at} AS received_at FROM {table}"
            f" WHERE raw_landed BETWEEN {part.first_landed} AND {part.last_landed}"
        )
        if not value(db, "SELECT EXISTS (FROM raw_wanted)"):
            continue
        for batch in _batches(db, sources(connection, [part]), part.first_landed):
            lacking -= batch.num_rows
            yield batch
    db.execute("DROP TABLE IF EXISTS temp.raw_wanted")
    if lacking:
        raise WarehouseUnusable(
            f"the raw store {store_of(connection).folder} lacks {lacking:,} payloads that the warehouse refers to."
            " Fix: restore it from a backup."
        )


def _batches(db: DuckDBPyConnection, source: str, first: int) -> Iterator[pa.Table]:
    for (last,) in db.execute(_LASTS).fetchall():
        rows = db.execute(
            f"SELECT w.order_key, r.payload, w.received_at FROM {source} AS r JOIN raw_wanted AS w USING (landed)"  # noqa: S608
            f" WHERE r.landed BETWEEN {first} AND {last} ORDER BY w.order_key"
        ).to_arrow_table()
        if rows.num_rows:
            yield rows
        first = last + 1
