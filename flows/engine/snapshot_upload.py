"""A snapshot on its way to a bucket: published on this machine first, then uploaded."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from connectors.store.snapshot_bucket import SnapshotBucket
from connectors.warehouse.snapshot.ownership import CODE, FIX, is_catalogued
from connectors.warehouse.storage.connection import warehouse_id
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.warehouse import Warehouse
from models.runs import RunWarning


async def upload_refusal(bucket: SnapshotBucket, warehouse: Warehouse) -> RunWarning | None:
    """Return why a snapshot would not be uploaded: the bucket has that of another warehouse. None if it would.

    Raises StoreError and WarehouseUnusable.
    """
    if await warehouse.read(is_catalogued):
        return None
    pointer = await bucket.pointer()
    if pointer is None or pointer.warehouse_id == await warehouse.read(warehouse_id):
        return None
    what = (
        f"{bucket.url} is the snapshot of another warehouse and is not replaced: this warehouse never completed a scan"
        " of the account catalogue."
    )
    return RunWarning(CODE, 1, what, f"{FIX}.", makes_partial=True)


async def upload(
    bucket: SnapshotBucket, warehouse: Warehouse, file: Path, *, at: datetime, new_id: Callable[[], str]
) -> None:
    """Upload the snapshot that was published in a file at `at`. Raises StoreError and WarehouseUnusable."""
    if (refused := await upload_refusal(bucket, warehouse)) is not None:
        message = f"{refused.detail} Fix: {refused.hint}"
        raise WarehouseUnusable(message)
    await bucket.publish(file, await warehouse.read(warehouse_id), at=at, new_id=new_id)
