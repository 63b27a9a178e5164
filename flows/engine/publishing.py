"""Publishes the merged data: the snapshot, its copy in the bucket, and the report."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from connectors.buckets import SnapshotBucket
from connectors.state.identity import read_identity
from connectors.state.published import read_published
from connectors.state.runs import mark_published
from connectors.warehouse.publish.publish import Publication, publish
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.storage.identity import read_warehouse
from flows.config.settings import Settings
from flows.engine.warehouse import Files
from models import release
from models.files import WarehouseUnusable


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot's size in bytes, and the HTML report if it was renewed."""

    snapshot_bytes: int
    report: Path | None


def publication(files: Files, settings: Settings, *, at: datetime, may_show: bool = False) -> Publication:
    """Return what a snapshot that is published at this time records, and hides."""
    return Publication(
        at=at,
        version=release(),
        stale_after=settings.stale_age(),
        full_refresh_every=timedelta(days=settings.full_refresh_every),
        goals=settings.goals(),
        scan_expired=settings.scan_expired,
        raw_folder=files.raw,
        hide=settings.hide,
        salt=files.state.read(read_identity).salt,
        may_show=may_show,
    )


def publish_snapshot(
    files: Files, settings: Settings, *, now: datetime, report: Path | None = None, may_show: bool = False
) -> Published:
    """Publish the merged data, upload it to the bucket if there is one, and renew the settings' report, or this one.

    With `may_show` the snapshot may show what the one before hid. Raises BucketError and WarehouseUnusable.
    """
    snapshot, report = settings.snapshot_file(), settings.report or report
    what = publication(files, settings, at=now, may_show=may_show)
    size = publish(files.db, files.path, snapshot, files.state.read(read_published), what)
    if (url := settings.snapshot_url()) is not None:
        asyncio.run(_upload(SnapshotBucket(url), snapshot, read_warehouse(files.db).id, now))
    # A run before this is not resumed any more.
    files.state.write(mark_published, now=now)
    if report is not None:
        # Imported here, because most runs have no report.
        from flows.reporting.page import renew_page  # noqa: PLC0415

        report = renew_page(snapshot, report)
    return Published(size, report)


async def _upload(bucket: SnapshotBucket, snapshot: Path, owner: str, now: datetime) -> None:
    if (newest := await bucket.newest()) is not None and newest.warehouse_id != owner:
        raise WarehouseUnusable(another_warehouse(bucket.url))
    await bucket.publish(snapshot, owner, at=now)
