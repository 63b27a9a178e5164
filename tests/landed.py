"""Reads what has landed and is not merged."""

from connectors.warehouse.ingest.landing.batches import read_merged
from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.ingest.landing.segments import LeftOver
from connectors.warehouse.storage.connection import Connection, session_id


def unmerged(connection: Connection) -> list[Frame]:
    """Return the frames that are not merged, in the order of landing."""
    merged = read_merged(connection)
    left = LeftOver(connection.path, session_id(connection))
    return [frame for frame in left.frames() if frame.seq not in merged]
