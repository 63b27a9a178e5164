"""The snapshot's file that a command reads, where it is in a bucket."""

import asyncio
from pathlib import Path

from flows.config.settings import Settings


def current_snapshot(settings: Settings) -> Path:
    """Return the snapshot's file on this machine, after a download where the bucket has a newer one.

    Where the warehouse is, no bucket is asked: its file is what was published last. Raises StoreError and OSError.
    """
    url, file = settings.snapshot_url(), settings.snapshot_file()
    if url is not None and not settings.warehouse.exists():
        from connectors.store.snapshot_bucket import open_snapshot_bucket

        asyncio.run(open_snapshot_bucket(url).fetch(file))
    return file
