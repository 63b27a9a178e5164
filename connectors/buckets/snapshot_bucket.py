"""The snapshot in a bucket: each version is an object with its own name, and a pointer names the newest.

The pointer is written last, so that readers find a complete snapshot, old or new, even if the writer is killed.
"""

import asyncio
import atexit
import fcntl
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import from_url

from connectors.buckets.address import BucketError

_log = logging.getLogger(__name__)

# How long a superseded file is kept for readers that have it open.
_RETENTION = timedelta(days=1)

# Logs that a program may have left next to the file after opening it for writing. They do not fit another version.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")

_MISSING = (NotFoundError, FileNotFoundError)

# A failed request is retried up to 8 times within 2 minutes, and is an error after that. Each attempt is also limited
# by obstore's default timeout of 30 s.
_RETRIES: Any = {"max_retries": 8, "retry_timeout": timedelta(minutes=2)}

# Each part of a file is one request, and two are sent at once: 30 s suffice at 350 kB/s. S3 requires parts of at least
# 5 MiB, and at most 10,000 of them per file.
_PART = 5 * 1024 * 1024
_PARTS_AT_ONCE = 2
_MOST_PARTS = 9_000

# Of each cloud: the prefix of its environment variables, its endpoint, and what a user sets.
_VARIABLES = {
    "s3": ("AWS", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE", "GOOGLE_BASE_URL", "GOOGLE_SERVICE_ACCOUNT"),
    "az": (
        "AZURE",
        "AZURE_STORAGE_ENDPOINT",
        "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and AZURE_STORAGE_ENDPOINT",
    ),
}

# Where obstore asks for the credentials of a machine in a cloud if the environment has none.
_CREDENTIALS_OF_MACHINE = ("//169.254.169.254/", "//metadata.google.internal/")

# The error code in a response of a server, or the system's reason why there was none.
_DETAIL = re.compile(r'<Code>(\w+)</Code>|\b(?:message|error): "([^"]+)"')

# obstore's threads still use Python for a moment after a request. If Python ends meanwhile, they abort the process.
atexit.register(time.sleep, 0.05)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The newest snapshot: its `file` relative to the pointer's folder, its size in bytes, and its warehouse."""

    file: str
    bytes: int
    published_at: datetime
    warehouse_id: str


class SnapshotBucket:
    """Publishes and fetches the snapshot at `url`, such as s3://bucket/path/analytics.duckdb.

    The pointer is the object with that name and `.json`; the files are below that name. Credentials and endpoint come
    from the cloud's environment variables. Every method raises BucketError.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder, _, self._name = url.rpartition("/")
        self._key = f"{self._name}.json"
        self._prefix, self._endpoint, self._settings = _VARIABLES[urlsplit(url).scheme]
        self._check_environment()
        with self._reporting():
            self._store: Any = from_url(self._folder, retry_config=_RETRIES)

    async def pointer(self) -> Pointer | None:
        """Return the pointer; None if nothing was published."""
        with self._reporting():
            try:
                data = bytes(await (await obstore.get_async(self._store, self._key)).bytes_async())
            except _MISSING:
                return None
        try:
            return msgspec.json.decode(data, type=Pointer)
        except msgspec.MsgspecError as error:
            raise BucketError(
                f"{self.url}.json is not a pointer to a snapshot ({error}). Fix: choose another GRAMHOUSE_SNAPSHOT."
            ) from error

    async def check(self) -> None:
        """Check that the snapshot can be published, so that a run fails before it begins."""
        await self.pointer()
        await self._files()
        key = f"{self._name}/check"
        with self._reporting():
            await obstore.put_async(self._store, key, b"")
        await self._delete([key])

    async def publish(self, file: Path, warehouse_id: str, *, at: datetime, new_id: Callable[[], str]) -> None:
        """Upload a snapshot that was published at `at`, point the pointer to it, and delete old files.

        If it raises, the pointer still names the previous snapshot.
        """
        before, size = await self.pointer(), (await asyncio.to_thread(file.stat)).st_size
        key, part = f"{self._name}/{_stamp(at)}-{new_id()[:8]}.duckdb", max(_PART, size // _MOST_PARTS + 1)
        pointer = msgspec.json.encode(Pointer(key, size, at, warehouse_id))
        with self._reporting():
            await obstore.put_async(self._store, key, file, chunk_size=part, max_concurrency=_PARTS_AT_ONCE)
            await obstore.put_async(self._store, self._key, pointer)
        try:
            files, limit = await self._files(), f"{self._name}/{_stamp(at - _RETENTION)}"
            replaced = before.file if before else ""
            # No pointer has named them, so they replaced nothing.
            failed_uploads = {each for each in files if _second(replaced) < _second(each) < _second(key)}
            published = [each for each in files if each not in failed_uploads]
            old = failed_uploads | {each for each, next_one in pairwise(published) if next_one < limit}
            await self._delete(old - {key, replaced})
        except BucketError as error:
            # The next publication deletes them.
            _log.warning("Old snapshots were not deleted: %s", error)

    async def delete_superseded(self) -> int:
        """Delete all files but the newest snapshot, also those that readers may have open; return how many."""
        if (pointer := await self.pointer()) is None:
            return 0
        old = set(await self._files()) - {pointer.file}
        await self._delete(old)
        return len(old)

    async def fetch(self, file: Path) -> None:
        """Download the newest snapshot to a file, unless the file already is that snapshot.

        Raises BucketError also if nothing was published, and OSError.
        """
        if _is_current(file, await self._newest()):
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        # Only one process downloads the same file.
        with file.with_name(f".{file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Again, because another process may have downloaded a newer one since.
            pointer = await self._newest()
            if not _is_current(file, pointer):
                await self._download(pointer, file)

    async def _newest(self) -> Pointer:
        pointer = await self.pointer()
        if pointer is None:
            raise BucketError(
                f"There is no snapshot at {self.url}. Fix: run `gramhouse sync` where the warehouse is, or correct"
                " GRAMHOUSE_SNAPSHOT."
            )
        return pointer

    async def _download(self, pointer: Pointer, file: Path) -> None:
        draft = file.with_name(f".{file.name}.download")
        draft.unlink(missing_ok=True)
        try:
            with draft.open("wb") as target:
                for start in range(0, pointer.bytes, _PART):
                    length = min(_PART, pointer.bytes - start)
                    with self._reporting():
                        piece = await obstore.get_range_async(self._store, pointer.file, start=start, length=length)
                    await asyncio.to_thread(target.write, piece)
            if (size := draft.stat().st_size) != pointer.bytes:
                raise BucketError(
                    f"{self.url}: {size:,} of {pointer.bytes:,} bytes arrived. Fix: run the same command again."
                )
            draft.chmod(0o444)
            os.utime(draft, ns=(_nanoseconds(pointer.published_at),) * 2)
            _remove_logs(file)
            draft.replace(file)
            _remove_logs(file)
        finally:
            draft.unlink(missing_ok=True)

    async def _files(self) -> list[str]:
        """Return the keys of all snapshots, by time. New objects may be missing for a while."""
        own = re.compile(rf"{re.escape(self._name)}/\d{{8}}T\d{{6}}Z-[^/]{{8}}\.duckdb", re.ASCII)
        with self._reporting():
            listed = [meta["path"] async for page in obstore.list(self._store, f"{self._name}/") for meta in page]
        return sorted(filter(own.fullmatch, listed))

    async def _delete(self, keys: Collection[str]) -> None:
        for key in sorted(keys):
            with self._reporting(), suppress(*_MISSING):
                await obstore.delete_async(self._store, key)

    def _check_environment(self) -> None:
        """Refuse values that make obstore panic."""
        endpoint = os.environ.get(self._endpoint)
        if endpoint is not None and not re.match(r"(?i)https?://[^/\s]", endpoint):
            why = f"{self._endpoint} is not an address"
            raise self._unusable(why, "write one such as https://host:9000, or unset it")
        for name, value in os.environ.items():
            # A service account may be JSON with line breaks.
            if name.startswith(f"{self._prefix}_") and value != value.strip() and not value.lstrip().startswith("{"):
                why = f"{name} begins or ends with a space or a line break"
                raise self._unusable(why, "remove it")

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Raise an error of obstore or of the system as BucketError."""
        try:
            yield
        except Exception as error:
            # The class of obstore's panics cannot be imported.
            if isinstance(error, (BaseError, ValueError, OSError)) or type(error).__name__ == "RustPanic":
                raise self._refused(error) from error
            raise

    def _refused(self, error: Exception) -> BucketError:
        text = str(error).strip() or type(error).__name__
        fix = f"check the bucket's name, and {self._settings} in the environment"
        if any(address in text for address in _CREDENTIALS_OF_MACHINE):
            return self._unusable("the environment has no credentials, and this machine provides none", fix)
        if "BadScheme" in text:
            fix = f"use https://, or set {self._prefix}_ALLOW_HTTP=true"
            return self._unusable(f"{self._endpoint} is not https://", fix)
        # The body of a response begins with "<", if it is XML or HTML.
        why = text.splitlines()[0].partition(": <")[0][:300].rstrip(". ")
        detail = _DETAIL.search(text)
        if detail and detail[detail.lastindex or 0] not in why:
            why += f" ({detail[detail.lastindex or 0]})"
        return self._unusable(why, fix)

    def _unusable(self, why: str, fix: str) -> BucketError:
        return BucketError(f"the bucket {self._folder} cannot be used: {why}. Fix: {fix}.")


def _stamp(at: datetime) -> str:
    """Return the prefix of a file's name for a time; names sort in the order of their times."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _second(file: str) -> str:
    """Return the part of a file's name that is the time of its snapshot."""
    return file.rpartition("-")[0]


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000


def _is_current(file: Path, pointer: Pointer) -> bool:
    """Return whether a file is the snapshot that a pointer names, by its size and modification time."""
    if not file.exists() or any(file.with_name(file.name + log).exists() for log in _LOGS):
        return False
    found = file.stat()
    return found.st_size == pointer.bytes and found.st_mtime_ns == _nanoseconds(pointer.published_at)


def _remove_logs(file: Path) -> None:
    for log in _LOGS:
        file.with_name(file.name + log).unlink(missing_ok=True)
