"""Steps when a warehouse is opened for writing, before pages land."""

from pathlib import Path

from connectors.warehouse.schema.field_registry import read_mapping, write_mapping
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import of_all_items
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.mapping import Mapping


def check_exists(warehouse: Path) -> None:
    """Raise WarehouseUnusable if there is no warehouse, because opening it would create one."""
    if not warehouse.exists():
        raise WarehouseUnusable(f"There is no warehouse at {warehouse} yet. Fix: `gramhouse sync` creates it.")


def adopt_mapping(connection: Connection, mapping: Mapping) -> bool:
    """Store the mapping if the stored rows, if there are any, are read like this; return whether it reads differently.

    Without rows, tables may have columns nevertheless: those of items that had no id by the mapping before.
    """
    before = read_mapping(connection)
    if before.reads_like(mapping):
        if before != mapping or not value(connection.db, "SELECT EXISTS (FROM ops.mapping)"):
            write_mapping(connection, mapping)
        return False
    if value(connection.db, f"SELECT EXISTS ({of_all_items('media_id')})"):
        return False
    # Imported here, because it imports pyarrow.
    from connectors.warehouse.maintenance.rebuild import rebuild_stored  # noqa: PLC0415

    rebuild_stored(connection, mapping)
    return True
