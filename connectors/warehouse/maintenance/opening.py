"""Steps when a warehouse is opened for writing, before pages land."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from connectors.warehouse.ingest.landing.segments import recover
from connectors.warehouse.raw.recovery import hold_store, recover_parts
from connectors.warehouse.storage.connection import Connection


@contextmanager
def opened_store(
    connection: Connection, activity: str, *, now: datetime, pause: Callable[[float], None]
) -> Iterator[None]:
    """Hold the raw store, and recover the parts and segments that a killed process left.

    The connection must not be in a transaction. Raises WarehouseBusy and WarehouseUnusable; a warehouse that does not
    fit its raw store is unchanged.
    """
    with hold_store(connection, activity, since=now.isoformat(timespec="seconds"), pause=pause):
        recover_parts(connection, now=now)
        recover(connection)
        yield
