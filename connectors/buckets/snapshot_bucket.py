"""The snapshot in a bucket: each version is an object with its own name, and a pointer names the newest.

The pointer is written last, so that readers find a complete snapshot, old or new, even if the writer is killed.
"""

import asyncio
import fcntl
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from connectors.buckets.address import BucketError

if TYPE_CHECKING:
    from connectors.buckets.bucket import Bucket

_log = logging.getLogger(__name__)

# How long a superseded file is kept for readers that have it open.
_RETENTION = timedelta(days=1)

# Logs that a program may have left next to the file after opening it for writing. They do not fit another version.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Superseded:
    """A file that was the snapshot until `at`."""

    file: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Pointer:
    """The newest snapshot: its `file` relative to the pointer's folder, its size in bytes, and its warehouse."""

    file: str
    bytes: int
    published_at: datetime
    warehouse_id: str
    superseded: tuple[Superseded, ...] = ()


class SnapshotBucket:
    """Publishes and fetches the snapshot at `url`, such as s3://bucket/path/analytics.duckdb.

    The pointer is the object with that name and `.json`; the files are below that name. `folder` is that of the URL.
    """

    def __init__(self, url: str, folder: "Bucket") -> None:
        self.url = url
        self._folder = folder
        self._name = url.rpartition("/")[2]
        self._key = f"{self._name}.json"

    async def pointer(self) -> Pointer | None:
        """Return the pointer; None if nothing was published. Raises BucketError."""
        data = await self._folder.get(self._key)
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Pointer)
        except msgspec.MsgspecError as error:
            message = (
                f"{self.url}.json is not a pointer to a snapshot ({error}). Fix: choose another GRAMHOUSE_SNAPSHOT."
            )
            raise BucketError(message) from error

    async def check(self) -> None:
        """Raise BucketError if the snapshot could not be published, so that a run fails before it begins."""
        await self.pointer()
        await self._folder.list(f"{self._name}/")
        await self._folder.put(f"{self._name}/check", b"")
        await self._folder.delete([f"{self._name}/check"])

    async def publish(self, file: Path, warehouse_id: str, *, at: datetime, new_id: Callable[[], str]) -> None:
        """Upload a snapshot that was published at `at`, point the pointer to it, and delete old files.

        Raises BucketError; then the pointer still names the previous snapshot.
        """
        before = await self.pointer()
        key = f"{self._name}/{_stamp(at)}-{new_id()[:8]}.duckdb"
        await self._folder.upload(key, file)
        superseded = () if before is None else (*before.superseded, Superseded(before.file, at))
        kept = tuple(one for one in superseded if one.at >= at - _RETENTION)
        size = (await asyncio.to_thread(file.stat)).st_size
        pointer = Pointer(key, size, at, warehouse_id, kept)
        await self._folder.put(self._key, msgspec.json.encode(pointer))
        try:
            await self._clear({key, *(one.file for one in kept)}, at - _RETENTION)
        except BucketError as error:
            # The next publication deletes them.
            _log.warning("Old snapshots were not deleted: %s", error)

    async def delete_superseded(self) -> int:
        """Delete all files but the newest snapshot, also those that readers may have open; return how many.

        Raises BucketError.
        """
        if (pointer := await self.pointer()) is None:
            return 0
        old = {one.file for one in pointer.superseded} | set(await self._own()) - {pointer.file}
        await self._folder.delete(sorted(old))
        await self._folder.put(self._key, msgspec.json.encode(replace(pointer, superseded=())))
        return len(old)

    async def _own(self) -> list[str]:
        own = re.compile(rf"{re.escape(self._name)}/\d{{8}}T\d{{6}}Z-[^/]{{8}}\.duckdb", re.ASCII)
        return [key for key in await self._folder.list(f"{self._name}/") if own.fullmatch(key)]

    async def _clear(self, kept: set[str], before: datetime) -> None:
        """Delete files of ours from before a time except `kept`: superseded files, and those of failed uploads."""
        found = await self._own()
        await self._folder.delete([key for key in found if key not in kept and key < f"{self._name}/{_stamp(before)}"])

    async def fetch(self, file: Path) -> None:
        """Download the newest snapshot to a file, unless the file already is that snapshot.

        Raises BucketError, also if nothing was published, and OSError.
        """
        pointer = await self.pointer()
        if pointer is None:
            message = (
                f"There is no snapshot at {self.url}. Fix: run `gramhouse sync` where the warehouse is, or correct"
                " GRAMHOUSE_SNAPSHOT."
            )
            raise BucketError(message)
        if _is_current(file, pointer):
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with _locked(file.with_name(f".{file.name}.lock")):
            if not _is_current(file, pointer):
                await self._download(pointer, file)

    async def _download(self, pointer: Pointer, file: Path) -> None:
        draft = file.with_name(f".{file.name}.download")
        draft.unlink(missing_ok=True)
        try:
            await self._folder.download(pointer.file, draft, pointer.bytes)
            if (size := draft.stat().st_size) != pointer.bytes:
                message = f"{self.url}: {size:,} of {pointer.bytes:,} bytes arrived. Fix: run the same command again."
                raise BucketError(message)
            draft.chmod(0o444)
            os.utime(draft, ns=(_nanoseconds(pointer.published_at),) * 2)
            _remove_logs(file)
            draft.replace(file)
            _remove_logs(file)
        finally:
            draft.unlink(missing_ok=True)


def open_snapshot_bucket(url: str) -> SnapshotBucket:
    """Open the bucket of a snapshot at a checked address. Raises BucketError if its library is missing."""
    try:
        from connectors.buckets.bucket import Bucket  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        message = f"{url} needs a library that is not installed. Fix: pip install 'gramhouse[bucket]'."
        raise BucketError(message) from error
    return SnapshotBucket(url, Bucket(url.rpartition("/")[0]))


def _stamp(at: datetime) -> str:
    """Return the prefix of a file's name for a time; names sort in the order of their times."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000


def _is_current(file: Path, pointer: Pointer) -> bool:
    """Return whether a file is the snapshot that a pointer names, by its size and modification time."""
    if not file.exists() or any(file.with_name(file.name + log).exists() for log in _LOGS):
        return False
    found = file.stat()
    return found.st_size == pointer.bytes and found.st_mtime_ns == _nanoseconds(pointer.published_at)


def _remove_logs(file: Path) -> None:
    for log in _LOGS:
        file.with_name(file.name + log).unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock, so that only one process downloads the same file."""
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
