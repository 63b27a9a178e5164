"""What the shared store must be able to do, and how it is opened: a folder, or a bucket of S3, GCS or Azure."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

CLOUDS = ("s3", "gs", "az")


class StoreError(Exception):
    """The store cannot be used, or did not do what was asked of it; one line, with the fix."""


class ObjectStore(Protocol):
    """Objects by key; keys are relative paths of ASCII letters, digits, `-`, `_`, `.` and `/`.

    Every method is durable when it returns, and raises StoreError when the store fails.
    """

    async def put(self, key: str, data: bytes) -> None:
        """Write an object whole; it replaces one of the same key."""
        ...

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object unless there is one of that key; return whether it was written."""
        ...

    async def get(self, key: str) -> bytes | None:
        """Return an object; None where there is none."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """Return the keys below a prefix, which ends with `/`, sorted; new objects may be missing for a while."""
        ...

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; keys that do not exist are ignored."""
        ...


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


def open_store(url: str) -> ObjectStore:
    """Open a store at a checked address. Raises StoreError where its library is not installed."""
    open_it: Callable[[str], ObjectStore]
    if urlsplit(url).scheme in CLOUDS:
        try:
            from connectors.store.bucket import BucketStore as open_it  # noqa: PLC0415 - a part of an extra
        except ImportError as error:
            message = f"{url} needs a library that is not installed. Fix: pip install 'gramhouse[dask]'."
            raise StoreError(message) from error
    else:
        from connectors.store.folder import FolderStore as open_it  # noqa: PLC0415
    return open_it(url)
