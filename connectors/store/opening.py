"""Opens a shared store: a folder, or a bucket of S3, Google Cloud Storage or Azure."""

from connectors.store.address import is_cloud
from connectors.store.folder import FolderStore
from connectors.store.object_store import FileStore, ObjectStore, StoreError
from connectors.store.repeating import RepeatingStore
from models.clock import Clock


def open_store(url: str, *, clock: Clock) -> ObjectStore:
    """Open the store at a checked address; it retries failed requests. Raises StoreError if its library is missing."""
    if not is_cloud(url):
        return RepeatingStore(FolderStore(url), clock=clock)
    # obstore retries requests itself.
    return open_bucket(url)


def open_bucket(url: str) -> FileStore:
    """Open the bucket at a checked address. Raises StoreError if its library is missing."""
    try:
        from connectors.store.bucket import BucketStore  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        message = f"{url} needs a library that is not installed. Fix: pip install 'gramhouse[bucket]'."
        raise StoreError(message) from error
    return BucketStore(url)
