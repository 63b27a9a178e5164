"""Downloading the snapshot that a command reads, if it is in a bucket."""

import asyncio
from pathlib import Path

from flows.config.settings import Settings


def current_snapshot(settings: Settings) -> Path:
    """Return the snapshot's file on this machine, after downloading it if the bucket has a newer one.

    On the machine of the warehouse nothing is downloaded, because its file is the latest one. Raises BucketError,
    OSError, and WarehouseUnusable if another file is in the place of the download.
    """
    url, file = settings.snapshot_url(), settings.snapshot_file()
    if url is not None and not settings.warehouse.exists():
        from connectors.buckets.address import open_snapshot_bucket
        from connectors.warehouse.snapshot.ownership import download_refusal
        from connectors.warehouse.snapshot.publish import draft_of
        from connectors.warehouse.storage.errors import WarehouseUnusable

        if (refused := download_refusal(file, draft_of(file))) is not None:
            raise WarehouseUnusable(str(refused))
        asyncio.run(open_snapshot_bucket(url).fetch(file))
    return file
