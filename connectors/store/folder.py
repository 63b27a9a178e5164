"""A store in a folder, which several machines may share over NFS."""

import asyncio
import errno
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from connectors.store.object_store import StoreError, StoreUnavailableError

T = TypeVar("T")

_DRAFT = ".draft-"

# Errors of a network file system while its server or the network is unavailable.
_MAY_PASS = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ENOLCK}
_MAY_PASS |= {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ECONNRESET}


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_same(draft: Path, path: Path) -> bool:
    return path.exists() and draft.samefile(path)


class FolderStore:
    """Objects as files. `create` links a complete, durable file to its name, which fails if the name exists."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    async def put(self, key: str, data: bytes) -> None:
        """Write an object atomically, replacing one with the same key."""
        await self._do(lambda: self._write(key, data, lambda draft, path: draft.replace(path)))

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object unless one with that key exists; return whether it was written."""
        return await self._do(lambda: self._write(key, data, os.link))

    async def get(self, key: str) -> bytes | None:
        """Return an object's content; None if it does not exist."""

        def read() -> bytes | None:
            try:
                return (self._folder / key).read_bytes()
            except FileNotFoundError:
                return None

        return await self._do(read)

    async def list(self, prefix: str) -> list[str]:
        """Return the keys below a prefix, sorted."""

        def find() -> list[str]:
            found = []
            for folder, _, names in os.walk(self._folder / prefix):
                below = Path(folder).relative_to(self._folder)
                found += [(below / name).as_posix() for name in names if not name.startswith(_DRAFT)]
            return sorted(found)

        return await self._do(find)

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects and the folders that become empty; keys that do not exist are ignored."""

        def remove() -> None:
            folders = set()
            for key in keys:
                (self._folder / key).unlink(missing_ok=True)
                folders.add((self._folder / key).parent)
            for folder in sorted(folders, reverse=True):
                while folder not in (self._folder, folder.parent) and folder.exists() and not any(folder.iterdir()):
                    folder.rmdir()
                    folder = folder.parent  # noqa: PLW2901

        await self._do(remove)

    def _write(self, key: str, data: bytes, name_it: Callable[[Path, Path], object]) -> bool:
        path = self._folder / key
        self._make(path.parent)
        handle, name = tempfile.mkstemp(prefix=_DRAFT, dir=path.parent)
        draft = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                name_it(draft, path)
            except FileExistsError:
                # NFS repeats a link if the response was lost, and then finds the one it made.
                if not _is_same(draft, path):
                    return False
            _sync(path.parent)
        finally:
            draft.unlink(missing_ok=True)
        return True

    def _make(self, folder: Path) -> None:
        if folder.is_dir():
            return
        if folder != self._folder.parent:
            self._make(folder.parent)
        folder.mkdir(parents=True, exist_ok=True)
        _sync(folder.parent)

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            message = (
                f"the store {self._folder} cannot be used: {error.strerror}."
                " Fix: make the folder writable, or point GRAMHOUSE_STORE to one that is."
            )
            raise (StoreUnavailableError if error.errno in _MAY_PASS else StoreError)(message) from error
