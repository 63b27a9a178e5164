"""The interface of the shared store."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class StoreError(Exception):
    """The store cannot be used, or an operation failed. The message is one line, with the fix."""


class StoreUnavailableError(StoreError):
    """The store is temporarily unavailable. The operation may have been carried out; it can be repeated."""


class ObjectStore(Protocol):
    """Objects by key; keys are relative paths of ASCII letters, digits, `-`, `_`, `.` and `/`.

    Changes are durable when a method returns. Every method raises StoreError when the store fails.
    """

    async def put(self, key: str, data: bytes) -> None:
        """Write an object atomically, replacing one with the same key."""
        ...

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object unless one with that key exists; return whether it was written."""
        ...

    async def get(self, key: str) -> bytes | None:
        """Return an object's content; None if it does not exist."""
        ...

    async def list(self, prefix: str) -> list[str]:
        """Return the keys below a prefix, which ends with `/`, sorted; new objects may be missing for a while."""
        ...

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; keys that do not exist are ignored."""
        ...


class FileStore(ObjectStore, Protocol):
    """A store that can also upload and download files of any size."""

    async def upload(self, key: str, file: Path) -> None:
        """Write a file's content as an object, atomically."""
        ...

    async def download(self, key: str, file: Path, size: int) -> None:
        """Write an object of this many bytes to a file, without fsync. Raises StoreError."""
        ...
