"""Steps when a warehouse is opened for writing, before pages land: recovery, and the upgrade of its rows."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from connectors.warehouse.ingest.landing.segments import recover
from connectors.warehouse.raw.parts import all_parts, confirm_part, write_part
from connectors.warehouse.raw.recovery import hold_store, recover_parts
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.storage.connection import Connection, value

_log = logging.getLogger(__name__)

# The most payloads that are moved in one transaction.
_PAYLOADS_PER_TRANSACTION = 50_000

# Rows of older versions have no landing number. They get numbers below all others, from here on.
_LOWEST = -(2**62)

# The history first, which is stored in order, so that an item's row in media gets its highest landing number.
_MOVED = (("media_superseded", "valid_from"), ("media", "changed_at"))

# Not duckdb_columns(), which lists the columns of every table first.
_HAS_PAYLOAD = "SELECT EXISTS (FROM pragma_table_info('core.{table}') WHERE name = 'old payload')"

_NUMBERED = """
CREATE OR REPLACE TEMP TABLE moved AS
SELECT order_key, {after} + row_number() OVER (ORDER BY order_key) AS landed FROM (
    SELECT rowid AS order_key FROM core.{table} WHERE raw_landed IS NULL AND "old payload" IS NOT NULL ORDER BY rowid
    LIMIT {at_once}
)
"""

_RAW = """
SELECT
    t.account_id, t.surface, t.media_id, t.{at} AS seen_at, NULL::VARCHAR AS run_id, NULL::VARCHAR AS correlation_id,
    m.landed, t."old payload"::VARCHAR AS payload
FROM core.{table} AS t JOIN temp.moved AS m ON t.rowid = m.order_key
ORDER BY m.landed
"""

# Rows of a version that compared items by their text have no hash, no overflow, and less exact column types; without a
# rebuild the next sync would report them as changed.
_IS_OUTDATED = "SELECT EXISTS (FROM core.media WHERE payload_hash IS NULL AND raw_landed IS NOT NULL)"


@contextmanager
def opened_store(
    connection: Connection,
    activity: str,
    *,
    now: datetime,
    pause: Callable[[float], None],
    at_once: int = _PAYLOADS_PER_TRANSACTION,
) -> Iterator[None]:
    """Hold the raw store, recover after a killed process, and upgrade rows of an older version.

    Each step is a separate transaction; after a kill, the next call continues with the step that was interrupted.
    `at_once` is the most rows that are moved in one transaction. The connection must not be in a transaction. Raises
    WarehouseBusy and WarehouseUnusable; a warehouse that does not fit its raw store is unchanged.
    """
    with hold_store(connection, activity, since=now.isoformat(timespec="seconds"), pause=pause):
        recover_parts(connection, now=now)
        recover(connection)
        _move_payloads(connection, at_once)
        with connection.begin():
            if value(connection.db, _IS_OUTDATED):
                from connectors.warehouse.maintenance.rebuild import rebuild_stored  # noqa: PLC0415 - for upgrades only

                rebuilt = rebuild_stored(connection, read_mapping(connection))
                _log.info("Upgraded the %s stored items of an older version.", f"{rebuilt.items:,}")
        yield


def _move_payloads(connection: Connection, at_once: int) -> None:
    """Move the payloads that an older version kept in the warehouse to the raw store, then drop their columns."""
    db = connection.db
    tables = [(table, at) for table, at in _MOVED if value(db, _HAS_PAYLOAD.format(table=table))]
    for table, at in tables:
        while move_some(connection, table, at, at_once):
            pass
    for table, _ in tables:
        drop_payload(connection, table)


def drop_payload(connection: Connection, table: str) -> None:
    """Drop the payload column of an older version, after its payloads were moved. Call it outside of a transaction."""
    with connection.begin():
        connection.db.execute(f'ALTER TABLE core.{table} DROP COLUMN "old payload"')


def move_some(connection: Connection, table: str, at: str, at_once: int) -> bool:
    """Move up to `at_once` payloads to a part of the raw store, in one transaction; return whether there were any."""
    db = connection.db
    with connection.begin():
        last = max((part.last_landed for part in all_parts(connection) if part.last_landed < 0), default=_LOWEST)
        db.execute(_NUMBERED.format(table=table, after=last, at_once=at_once))
        if not value(db, "SELECT EXISTS (FROM temp.moved)"):
            db.execute("DROP TABLE temp.moved")
            return False
        write_part(connection, _RAW.format(table=table, at=at))
        db.execute(
            f"UPDATE core.{table} SET raw_landed = m.landed FROM temp.moved AS m WHERE {table}.rowid = m.order_key"  # noqa: S608
        )
        db.execute("DROP TABLE temp.moved")
    confirm_part(connection)
    return True
