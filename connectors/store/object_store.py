"""What the shared store must be able to do."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class StoreError(Exception):
    """The store cannot be used, or did not do what was asked of it; one line, with the fix."""


class StoreUnavailableError(StoreError):
    """The store fails at the moment, and what was asked of it may have been done: it can be repeated."""


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


class FileStore(ObjectStore, Protocol):
    """A store that also takes and gives whole files, however large."""

    async def upload(self, key: str, file: Path) -> None:
        """Write a file's content as an object: all of it, or none."""
        ...

    async def download(self, key: str, file: Path, size: int) -> None:
        """Write an object of this many bytes to a file, which is not durable. Raises StoreError."""
        ...
