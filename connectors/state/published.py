"""What the snapshot shows of the state, as Arrow tables."""

from typing import Any

import pyarrow as pa
from sqlalchemy import Boolean, Connection, Double, Integer, Select, Text, select

from models.checkpoint import ScanState
from models.tables import Instant, checkpoints, run_warnings, runs

_TYPES = {
    Boolean: pa.bool_(),
    Double: pa.float64(),
    Instant: pa.timestamp("us", tz="UTC"),
    Integer: pa.int64(),
    Text: pa.string(),
}
# They are only for `status`, or counted by the warehouse.
_OF_STATE_ALONE = ("number", "pid", "pages", "items")

_RUNS = select(*(column for column in runs.columns if column.name not in _OF_STATE_ALONE)).where(
    runs.c.run_id.is_not(None)
)
_OPEN_SCANS = select(checkpoints).where(
    checkpoints.c.surface != "", checkpoints.c.state.in_([ScanState.SCANNING, ScanState.ABANDONED])
)


def read_published(connection: Connection) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return all runs, their warnings, and the scans of feeds that have begun and are not closed."""
    return tuple(_to_arrow(connection, query) for query in (_RUNS, select(run_warnings), _OPEN_SCANS))


def _to_arrow(connection: Connection, query: Select[Any]) -> pa.Table:
    schema = pa.schema([(column.name, _TYPES[type(column.type)]) for column in query.selected_columns])
    return pa.Table.from_pylist([dict(row) for row in connection.execute(query).mappings()], schema)
