"""Times that a clock stored while it was ahead are moved to now.

Sequence numbers define the order of runs and scans. Times are used only for ages and waits.
"""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.compact_parts import rewrite_parts
from connectors.warehouse.raw.parts import SCHEMA
from models.clock import Ahead

# Times of the service, and the ends of waits, which move with their beginnings. Columns of fields have no comment.
_COLUMNS = """
SELECT 'core.' || table_name, column_name FROM duckdb_columns()
WHERE schema_name = 'core' AND data_type = 'TIMESTAMP WITH TIME ZONE' AND comment IS NOT NULL
  AND (table_name, column_name) <> ('media', 'published_at')
  AND column_name NOT IN ('covered_from', 'read_to', 'known_from', 'resume_after', 'due_at')
ORDER BY ALL
"""


def find_ahead(db: DuckDBPyConnection, *, now: datetime) -> Ahead | None:
    """Return the times after `now`; None if there are none. Raises duckdb.Error."""
    columns = db.execute(_COLUMNS).fetchall()
    times = " UNION ALL ".join(f"SELECT {column} AS moment FROM {table}" for table, column in columns)  # noqa: S608
    [(count, last)] = db.execute(f"SELECT count(*), max(moment) FROM ({times}) WHERE moment > ?", [now]).fetchall()  # noqa: S608
    return Ahead(count, last) if count else None


def repair_clock(db: DuckDBPyConnection, *, seq: int, now: datetime) -> Ahead | None:
    """Move the times after `now` to now, in the open transaction; return what they were.

    All that landed must be merged before; `seq` is the landing number that this takes. Raises duckdb.Error.
    """
    found = find_ahead(db, now=now)
    db.execute("UPDATE core.warehouse SET merged_seq = ?", [seq])
    waits = "UPDATE core.run_outcomes SET resume_after = $now + (resume_after - ended_at) WHERE ended_at > $now"
    moves = [
        f"UPDATE {table} SET {column} = $now WHERE {column} > $now"  # noqa: S608 - names of our tables
        for table, column in db.execute(_COLUMNS).fetchall()
    ]
    for statement in [waits, *moves]:
        db.execute(statement, {"now": now})
    return found


def lift_waits(db: DuckDBPyConnection, *, after: datetime, now: datetime) -> None:
    """Let the waits of outcomes that end after `after` end now."""
    db.execute("UPDATE core.run_outcomes SET resume_after = ? WHERE resume_after > ?", [now, after])


def repair_raw(raw: Path, *, now: datetime) -> None:
    """Move the times after `now` in the raw store to now. After a kill, the rest is moved by another repair."""
    place = SCHEMA.get_field_index("seen_at")
    latest = pa.scalar(now, SCHEMA.types[place])

    def move(rows: pa.Table) -> pa.Table:
        times = rows["seen_at"]
        return rows.set_column(place, "seen_at", pc.if_else(pc.greater(times, latest), latest, times))

    rewrite_parts(raw, move)
