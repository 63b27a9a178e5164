"""Addresses of buckets, and their error. Every command imports this module, so it does not import obstore."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from connectors.buckets.snapshot_bucket import SnapshotBucket

CLOUDS = ("s3", "gs", "az")


class BucketError(Exception):
    """A bucket cannot be used, or a request to it failed. The message is one line, with the fix."""


def check_url(url: str) -> str:
    """Return the normalized URL of an object in a bucket, or of a folder. Raises ValueError."""
    scheme, place, *_ = urlsplit(url)
    if scheme not in CLOUDS:
        known = ", ".join(f"{cloud}://" for cloud in CLOUDS)
        raise ValueError(f"{scheme}:// is not supported; write a path, or {known} and a bucket")
    if not place or "@" in place:
        raise ValueError(f"it names no bucket; write one such as {scheme}://bucket/gramhouse")
    return url.rstrip("/")


def is_cloud(url: str) -> bool:
    """Return whether an address is a bucket's URL, not a path."""
    return url.startswith(tuple(f"{cloud}://" for cloud in CLOUDS))


def open_snapshot_bucket(url: str) -> "SnapshotBucket":
    """Open the bucket of a snapshot at a checked address. Raises BucketError if its library is missing."""
    try:
        from connectors.buckets.snapshot_bucket import SnapshotBucket  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise BucketError(f"{url} needs the extra 'bucket'. Fix: install it as docs/analyst.md says.") from error
    return SnapshotBucket(url)
