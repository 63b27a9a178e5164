"""How a shared store is opened: a folder, or a bucket of S3, Google Cloud Storage or Azure."""

from connectors.store.address import is_cloud
from connectors.store.folder import FolderStore
from connectors.store.object_store import FileStore, ObjectStore, StoreError
from connectors.store.repeating import RepeatingStore
from models.clock import Clock


def open_store(url: str, *, clock: Clock) -> ObjectStore:
    """Open a store at a checked address, which repeats requests that fail. Raises StoreError without its library."""
    if not is_cloud(url):
        return RepeatingStore(FolderStore(url), clock=clock)
    # It repeats requests by itself.
    return open_bucket(url)


def open_bucket(url: str) -> FileStore:
    """Open a cloud's store at a checked address. Raises StoreError without its library."""
    try:
        from connectors.store.bucket import BucketStore  # noqa: PLC0415 - a part of an extra
    except ImportError as error:
        message = f"{url} needs a library that is not installed. Fix: pip install 'gramhouse[bucket]'."
        raise StoreError(message) from error
    return BucketStore(url)
