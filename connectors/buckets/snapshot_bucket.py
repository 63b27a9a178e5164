"""The snapshot in a bucket: one object, which each publish replaces whole. Readers find the old one or the new one."""

import atexit
import fcntl
import glob
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, PreconditionError
from obstore.store import from_url

from connectors.buckets.address import BucketError

# The object's attributes. Azure refuses names with a dash, and some proxies those with an underscore.
_WAREHOUSE, _PUBLISHED = "warehouse", "published"

# Each part is one request, which obstore limits to 30 s: that suffices at 560 kB/s. S3 accepts at most 10,000 parts.
_PART = 8 * 1024 * 1024
_PARTS_AT_ONCE = 2
_RETRIES: Any = {"max_retries": 8, "retry_timeout": timedelta(minutes=2)}

_SETTINGS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL (http:// needs AWS_ALLOW_HTTP=true)",
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and AZURE_STORAGE_ENDPOINT",
}
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")

# The error code in a response of a server, or the system's reason why there was none.
_DETAIL = re.compile(r'<Code>(\w+)</Code>|\b(?:message|error): "([^"]+)"')

# obstore's threads still use Python for a moment after a request. If Python ends meanwhile, they abort the process.
atexit.register(time.sleep, 0.05)


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot in the bucket: its version, its size in bytes, when it was published, and its warehouse."""

    e_tag: str | None
    bytes: int
    published_at: datetime
    warehouse_id: str


class SnapshotBucket:
    """Publishes and fetches the snapshot at `url`, such as s3://bucket/path/analytics.duckdb.

    Credentials and endpoint come from the cloud's environment variables. Every method raises BucketError.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder, _, self._key = url.rpartition("/")
        for name in _ENDPOINTS:
            # obstore would panic.
            if not re.fullmatch(r"(?i)https?://\S+", os.environ.get(name, "https://unset")):
                raise self._unusable(f"{name} is not an address such as https://host:9000")
        with self._reporting():
            self._store: Any = from_url(self._folder, retry_config=_RETRIES)

    async def newest(self) -> Published | None:
        """Return what is published; None if nothing is."""
        with self._reporting():
            try:
                found = await obstore.get_async(self._store, self._key, options={"head": True})
            except FileNotFoundError:
                return None
        meta, told = found.meta, found.attributes
        try:
            return Published(meta["e_tag"], meta["size"], datetime.fromisoformat(told[_PUBLISHED]), told[_WAREHOUSE])
        except (KeyError, ValueError):
            raise BucketError(f"{self.url} is not a snapshot. Fix: choose another GRAMHOUSE_SNAPSHOT.") from None

    async def check(self) -> None:
        """Check that the snapshot can be published, so that a run fails before it begins."""
        await self.newest()
        with self._reporting():
            await obstore.put_async(self._store, f"{self._key}.check", b"")
            await obstore.delete_async(self._store, f"{self._key}.check")

    async def publish(self, file: Path, warehouse_id: str, *, at: datetime) -> None:
        """Replace the snapshot by a file that was published at `at`, unless a newer one is there."""
        newest = await self.newest()
        if newest is not None and newest.published_at > at:
            raise BucketError(
                f"{self.url} is not replaced by an older snapshot: it was published at {newest.published_at}. Fix: find"
                " out which machine publishes there; if none does, delete the object and run `gramhouse publish`."
            )
        about: Any = {_WAREHOUSE: warehouse_id, _PUBLISHED: at.isoformat()}
        parts: Any = {"chunk_size": _PART, "max_concurrency": _PARTS_AT_ONCE}
        with self._reporting():
            await obstore.put_async(self._store, self._key, file, attributes=about, **parts)

    async def fetch(self, file: Path) -> None:
        """Download the snapshot to a file, unless the file already is that snapshot.

        Raises BucketError also if nothing was published, or if it is replaced meanwhile, and OSError.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        # Only one process downloads the same file, so that none replaces it by an older one.
        with file.with_name(f".{file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            newest = await self.newest()
            if newest is None:
                raise BucketError(
                    f"There is no snapshot at {self.url}. Fix: run `gramhouse sync` where the warehouse is, or correct"
                    " GRAMHOUSE_SNAPSHOT."
                )
            # Logs that a program has left beside the copy, which it opened for writing, fit no other version.
            logs = list(file.parent.glob(f"{glob.escape(file.name)}.wal*"))
            if logs or not _is_current(file, newest):
                await self._download(newest, file)
            for log in logs:
                log.unlink(missing_ok=True)

    async def _download(self, newest: Published, file: Path) -> None:
        draft = file.with_name(f".{file.name}.download")
        draft.unlink(missing_ok=True)
        with draft.open("wb") as target:
            for start in range(0, newest.bytes, _PART):
                part: Any = {"range": (start, min(start + _PART, newest.bytes)), "if_match": newest.e_tag}
                with self._reporting():
                    piece = await obstore.get_async(self._store, self._key, options=part)
                    target.write(await piece.bytes_async())
        draft.chmod(0o444)
        os.utime(draft, ns=(_nanoseconds(newest.published_at),) * 2)
        draft.replace(file)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Raise an error of obstore or of the system as BucketError."""
        try:
            yield
        except PreconditionError as error:
            raise BucketError(f"{self.url} was replaced while it was read. Fix: run the command again.") from error
        except Exception as error:
            # The class of obstore's panics cannot be imported.
            if not isinstance(error, (BaseError, ValueError, OSError)) and type(error).__name__ != "RustPanic":
                raise
            text = str(error).strip() or type(error).__name__
            # The body of a response begins with "<".
            why = text.splitlines()[0].partition(": <")[0][:300].rstrip(". ")
            detail = _DETAIL.search(text)
            raise self._unusable(f"{why} ({detail[1] or detail[2]})" if detail else why) from error

    def _unusable(self, why: str) -> BucketError:
        settings = _SETTINGS[urlsplit(self.url).scheme]
        fix = f"check the bucket's name, and in the environment {settings}"
        return BucketError(f"the bucket {self._folder} cannot be used: {why}. Fix: {fix}.")


def _is_current(file: Path, newest: Published) -> bool:
    """Return whether a file is the published snapshot, by its size and modification time."""
    found = file.stat() if file.exists() else None
    return found is not None and (found.st_size, found.st_mtime_ns) == (newest.bytes, _nanoseconds(newest.published_at))


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
