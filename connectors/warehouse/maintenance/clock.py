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
from connectors.warehouse.storage.quoting import quoted
from models.files import Ahead

# Times of the service, and the ends of waits, which move with their beginnings. Columns of fields have no comment.
_COLUMNS = """
SELECT table_name, column_name FROM duckdb_columns()
WHERE schema_name = 'core' AND data_type = 'TIMESTAMP WITH TIME ZONE' AND comment IS NOT NULL
  AND (table_name, column_name) <> ('media', 'published_at')
  AND column_name NOT IN ('covered_from', 'read_to', 'known_from', 'resume_after', 'due_at')
ORDER BY ALL
"""


def find_ahead(db: DuckDBPyConnection, *, now: datetime) -> Ahead | None:
    """Return the times after `now`; None if there are none. Raises duckdb.Error."""
    times = " UNION ALL ".join(
        f"SELECT {quoted(column)} AS moment FROM core.{quoted(table)}"  # noqa: S608 - quoted names
        for table, column in db.execute(_COLUMNS).fetchall()
    )
    [(count, last)] = db.execute(f"SELECT count(*), max(moment) FROM ({times}) WHERE moment > ?", [now]).fetchall()  # noqa: S608
    return Ahead(count, last) if count else None


def repair_clock(db: DuckDBPyConnection, *, seq: int, now: datetime) -> Ahead | None:
    """Move the times after `now` to now, in the open transaction; return what they were.

    All that landed must be merged before; `seq` is the landing number that this takes. Raises duckdb.Error.
    """
    found = find_ahead(db, now=now)
    db.execute("UPDATE core.warehouse SET merged_seq = ?", [seq])
    if found is not None:
        waits = "UPDATE core.run_outcomes SET resume_after = $now + (resume_after - ended_at) WHERE ended_at > $now"
        db.execute(waits, {"now": now})
        for table, column in db.execute(_COLUMNS).fetchall():
            name = quoted(column)
            db.execute(f"UPDATE core.{quoted(table)} SET {name} = $now WHERE {name} > $now", {"now": now})  # noqa: S608
    return found


def repair_raw(raw: Path, *, now: datetime) -> None:
    """Move the times after `now` in the raw store to now. After a kill, the rest is moved by another repair."""
    place = SCHEMA.get_field_index("seen_at")
    latest = pa.scalar(now, SCHEMA.types[place])

    def move(rows: pa.Table) -> pa.Table:
        times = rows["seen_at"]
        return rows.set_column(place, "seen_at", pc.if_else(pc.greater(times, latest), latest, times))

    rewrite_parts(raw, move)
