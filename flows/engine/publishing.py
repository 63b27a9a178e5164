"""Publishes the merged data: the snapshot, its copy in the bucket, and the report."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.state.runs import mark_published
from connectors.warehouse.publish.publish import Publication
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_id
from flows.config.settings import Settings
from flows.engine.warehouse import Warehouse
from models.release import release

if TYPE_CHECKING:
    from connectors.buckets.snapshot_bucket import SnapshotBucket


async def upload_refusal(bucket: "SnapshotBucket", warehouse: Warehouse) -> str | None:
    """Return why the snapshot must not be uploaded: the bucket has that of another warehouse. None if it has not.

    Raises BucketError and WarehouseUnusable.
    """
    newest = await bucket.newest()
    if newest is None or newest.warehouse_id == await warehouse.read(read_id):
        return None
    return another_warehouse(bucket.url)


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot's size in bytes, and the HTML report if it was renewed."""

    snapshot_bytes: int
    report: Path | None


def publication(settings: Settings, *, at: datetime, may_show: bool = False) -> Publication:
    """Return what a snapshot that is published at this time records, and hides."""
    return Publication(
        at=at,
        version=release(),
        stale_after=timedelta(seconds=settings.stale_after),
        full_refresh_every=timedelta(days=settings.full_refresh_every),
        hide=settings.hide,
        may_show=may_show,
    )


async def publish_snapshot(
    warehouse: Warehouse,
    settings: Settings,
    bucket: "SnapshotBucket | None",
    *,
    now: datetime,
    report: Path | None = None,
    may_show: bool = False,
) -> Published:
    """Publish the merged data, upload it to the bucket if there is one, and renew the settings' report, or this one.

    With `may_show` the snapshot may show what the one before hid. Raises BucketError and WarehouseUnusable.
    """
    snapshot, report = settings.snapshot_file(), settings.report or report
    size = await warehouse.publish(snapshot, publication(settings, at=now, may_show=may_show))
    if bucket is not None:
        if (refused := await upload_refusal(bucket, warehouse)) is not None:
            raise WarehouseUnusable(refused)
        await bucket.publish(snapshot, await warehouse.read(read_id), at=now)
    # A run before this is not resumed any more.
    await warehouse.write_state(mark_published, now=now)
    if report is None:
        return Published(size, None)
    # Imported here, because most runs have no report.
    from flows.reporting.page.write import renew_page  # noqa: PLC0415

    return Published(size, await renew_page(snapshot, report))
