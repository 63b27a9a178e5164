"""How a shared store is opened: a folder, or a bucket of S3, Google Cloud Storage or Azure."""

from urllib.parse import urlsplit

from connectors.store.address import CLOUDS
from connectors.store.folder import FolderStore
from connectors.store.object_store import ObjectStore, StoreError
from connectors.store.repeating import RepeatingStore
from models.clock import Clock


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
