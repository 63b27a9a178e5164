"""Steps when a warehouse is opened for writing, before pages land."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from connectors.warehouse.ingest.landing.batches import read_merged
from connectors.warehouse.ingest.landing.segments import LeftOver
from connectors.warehouse.merge.landed import merge_landed
from connectors.warehouse.raw.recovery import hold_store, recover_parts
from connectors.warehouse.schema.field_registry import read_mapping, write_mapping
from connectors.warehouse.storage.connection import Connection, session_id, value
from connectors.warehouse.storage.declared import of_all_items
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.mapping import Mapping


def check_exists(warehouse: Path) -> None:
    """Raise WarehouseUnusable if there is no warehouse, because opening it would create one."""
    if not warehouse.exists():
        raise WarehouseUnusable(f"There is no warehouse at {warehouse} yet. Fix: `gramhouse sync` creates it.")


def adopt_mapping(connection: Connection, mapping: Mapping) -> None:
    """Store the mapping if the stored rows, if there are any, are read like this.

    Without rows, tables may have columns nevertheless: those of items that had no id by the mapping before.
    """
    before = read_mapping(connection)
    if before.reads_like(mapping):
        if before != mapping or not value(connection.db, "SELECT EXISTS (FROM ops.mapping)"):
            write_mapping(connection, mapping)
    elif not value(connection.db, f"SELECT EXISTS ({of_all_items('media_id')})"):
        # Imported here, because it imports pyarrow.
        from connectors.warehouse.maintenance.rebuild import rebuild_stored  # noqa: PLC0415

        rebuild_stored(connection, mapping)


@contextmanager
def opened_store(
    connection: Connection, activity: str, *, now: datetime, pause: Callable[[float], None], mapping: Mapping
) -> Iterator[tuple[str, ...]]:
    """Hold the raw store, finish what a killed process left, and merge its pages; yield the ids of their runs.

    Media are read with this mapping, unless stored rows were read differently. The connection must not be in a
    transaction. Raises WarehouseBusy and WarehouseUnusable; a warehouse that does not fit its raw store or its segments
    is unchanged.
    """
    with hold_store(connection, activity, since=now.isoformat(timespec="seconds"), pause=pause):
        recover_parts(connection, now=now)
        left = LeftOver(connection.path, session_id(connection))
        runs: tuple[str, ...] = ()
        if left:
            with connection.begin():
                adopt_mapping(connection, mapping)
                merged = read_merged(connection)
            pages = (frame.commit.page for frame in left.frames() if frame.seq not in merged)
            runs = tuple(dict.fromkeys(page.run_id for page in pages if page is not None))
            merge_landed(connection, left.frames)
        left.delete()
        yield runs
