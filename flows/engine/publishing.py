"""Publishes the merged data: the snapshot, its copy in the bucket, and the report."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from connectors.buckets import SnapshotBucket
from connectors.state.identity import read_identity
from connectors.state.published import read_published
from connectors.state.runs import mark_published
from connectors.warehouse.publish.publish import Publication, publish
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_warehouse
from flows.config.settings import Settings
from flows.engine.warehouse import Warehouse
from models import release


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
        stale_after=settings.stale_age(),
        full_refresh_every=timedelta(days=settings.full_refresh_every),
        goals=settings.goals(),
        scan_expired=settings.scan_expired,
        hide=settings.hide,
        may_show=may_show,
    )


async def publish_snapshot(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    report: Path | None = None,
    may_show: bool = False,
) -> Published:
    """Publish the merged data, upload it to the bucket if there is one, and renew the settings' report, or this one.

    With `may_show` the snapshot may show what the one before hid. Raises BucketError and WarehouseUnusable.
    """
    snapshot, files, report = settings.snapshot_file(), warehouse.files, settings.report or report
    rows = await warehouse.read_state(read_published)
    salt = (await warehouse.read_state(read_identity)).salt
    what = replace(publication(settings, at=now, may_show=may_show), raw_folder=files.raw, salt=salt)
    size = await warehouse.alone(publish, files.path, snapshot, rows, what)
    if (url := settings.snapshot_url()) is not None:
        bucket, owner = SnapshotBucket(url), (await warehouse.read(read_warehouse)).id
        if (newest := await bucket.newest()) is not None and newest.warehouse_id != owner:
            raise WarehouseUnusable(another_warehouse(url))
        await bucket.publish(snapshot, owner, at=now)
    # A run before this is not resumed any more.
    await warehouse.write_state(mark_published, now=now)
    if report is None:
        return Published(size, None)
    # Imported here, because most runs have no report.
    from flows.reporting.page import renew_page  # noqa: PLC0415

    return Published(size, await renew_page(snapshot, report))
