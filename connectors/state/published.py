"""What the snapshot shows of the state, as Arrow tables."""

import pyarrow as pa
from sqlalchemy import Boolean, Connection, Double, Integer, Text, select

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

_OPEN = checkpoints.c.state.in_([ScanState.SCANNING, ScanState.ABANDONED])
_QUERIES = (
    select(*(one for one in runs.columns if one.name not in _OF_STATE_ALONE)).where(runs.c.run_id.is_not(None)),
    select(run_warnings),
    select(checkpoints).where(checkpoints.c.surface != "", _OPEN),
)


def read_published(connection: Connection) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return all runs, their warnings, and the scans of feeds that have begun and are not closed."""
    tables = []
    for query in _QUERIES:
        schema = pa.schema([(column.name, _TYPES[type(column.type)]) for column in query.selected_columns])
        rows = [dict(row) for row in connection.execute(query).mappings()]
        tables.append(pa.Table.from_pylist(rows, schema))
    return tuple(tables)
