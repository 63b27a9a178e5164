"""How a shared store is opened: a folder, or a bucket of S3, Google Cloud Storage or Azure."""

from pathlib import Path
from urllib.parse import urlsplit

from connectors.store.folder import FolderStore
from connectors.store.object_store import ObjectStore, StoreError
from connectors.store.repeating import RepeatingStore
from models.clock import Clock

CLOUDS = ("s3", "gs", "az")


def check_url(url: str) -> str:
    """Return the address of a store as it is used everywhere: a cloud's, or an absolute path. Raises ValueError."""
    scheme = urlsplit(url).scheme
    if scheme in CLOUDS:
        if not urlsplit(url).netloc or "@" in urlsplit(url).netloc:
            message = f"it names no bucket; write one such as {scheme}://bucket/gramhouse"
            raise ValueError(message)
        return url.rstrip("/")
    if "://" in url:
        known = ", ".join(f"{cloud}://" for cloud in CLOUDS)
        message = f"{scheme}:// is not supported; write a folder, or {known} and a bucket"
        raise ValueError(message)
    return str(Path(url).absolute())


def open_store(url: str, *, clock: Clock) -> ObjectStore:
    """Open a store at a checked address, which repeats requests that fail. Raises StoreError without its library."""
    if urlsplit(url).scheme not in CLOUDS:
        return RepeatingStore(FolderStore(url), clock=clock)
    try:
        from connectors.store.bucket import BucketStore  # noqa: PLC0415 - a part of an extra
    except ImportError as error:
        message = f"{url} needs a library that is not installed. Fix: pip install 'gramhouse[dask]'."
        raise StoreError(message) from error
    # It repeats requests by itself.
    return BucketStore(url)
