"""What merges and views need of the state: tables of the warehouse that are replaced with a copy of it."""

from collections.abc import Mapping, Sequence

from connectors.warehouse.storage.appending import append, as_json, row_types, rows_sql
from connectors.warehouse.storage.connection import Connection
from models.checkpoint import Checkpoint


def copy_runs(connection: Connection, runs: Sequence[Mapping[str, object]]) -> None:
    """Replace the runs, in the open transaction."""
    connection.db.execute("DELETE FROM core.runs")
    append(connection, "core.runs", runs)


def copy_open_scans(connection: Connection, scans: Sequence[Checkpoint]) -> None:
    """Replace the scans that are not closed, in the open transaction. Everything that landed must be merged.

    What other scans have seen is forgotten.
    """
    db = connection.db
    db.execute("DELETE FROM ops.open_scans")
    if scans:
        db.execute(f"INSERT INTO ops.open_scans BY NAME {rows_sql(row_types('ops.open_scans'))}", [as_json(scans)])
    db.execute("DELETE FROM ops.seen WHERE scan_id NOT IN (SELECT scan_id FROM ops.open_scans)")
