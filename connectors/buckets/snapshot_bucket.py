"""The snapshot in a bucket: one object, which each publish replaces whole. Readers find the old one or the new one."""

import atexit
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError, PreconditionError
from obstore.store import from_url

from connectors.buckets.address import BucketError

# The object's attributes. Azure refuses names with a dash, and some proxies those with an underscore.
_WAREHOUSE, _PUBLISHED = "warehouse", "published"

# Each part is one request, which obstore limits to 30 s: that suffices at 560 kB/s. S3 accepts at most 10,000 parts.
_PART = 8 * 1024 * 1024

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

    @property
    def nanoseconds(self) -> int:
        """Return when it was published, as the time of a file."""
        return round(self.published_at.timestamp() * 1_000_000) * 1000


class SnapshotBucket:
    """Publishes and fetches the snapshot at `url`, such as s3://bucket/path/analytics.duckdb.

    Credentials and endpoint come from the cloud's environment variables. Every method raises BucketError.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._folder, _, self._key = url.rpartition("/")
        with self._explained():
            for name in _ENDPOINTS:
                # obstore would panic, and print a backtrace.
                if not re.fullmatch(r"(?i)https?://\S+", os.environ.get(name, "https://unset")):
                    raise ValueError(f"{name} is not an address such as https://host:9000")
            self._store: Any = from_url(self._folder)

    async def newest(self) -> Published | None:
        """Return what is published; None if nothing is."""
        with self._explained():
            try:
                found = await self._store.get_async(self._key, options={"head": True})
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
        with self._explained():
            await self._store.put_async(f"{self._key}.check", b"")
            await self._store.delete_async(f"{self._key}.check")

    async def publish(self, file: Path, warehouse_id: str, *, at: datetime) -> None:
        """Replace the snapshot by a file that was published at `at`, unless a newer one is there."""
        newest = await self.newest()
        if newest is not None and newest.published_at > at:
            raise BucketError(
                f"{self.url} is not replaced by an older snapshot: it was published at {newest.published_at}. Fix: find"
                " out which machine publishes there; if none does, delete the object and run `gramhouse publish`."
            )
        about = {_WAREHOUSE: warehouse_id, _PUBLISHED: at.isoformat()}
        with self._explained():
            await self._store.put_async(self._key, file, attributes=about, chunk_size=_PART, max_concurrency=2)

    async def fetch(self, file: Path) -> None:
        """Download the snapshot to a file, unless the file already is that snapshot, by its size and time.

        Raises BucketError also if nothing was published, or if it is replaced meanwhile, and OSError.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        # Another process may download to the same file.
        with file.with_name(f".{file.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            newest = await self.newest()
            if newest is None:
                raise BucketError(
                    f"There is no snapshot at {self.url}. Fix: run `gramhouse sync` where the warehouse is, or correct"
                    " GRAMHOUSE_SNAPSHOT."
                )
            if not _is_current(file, newest):
                await self._download(newest, file)

    async def _download(self, newest: Published, file: Path) -> None:
        draft = file.with_name(f".{file.name}.download")
        draft.unlink(missing_ok=True)
        with draft.open("wb") as target, self._explained():
            for start in range(0, newest.bytes, _PART):
                part = {"range": (start, min(start + _PART, newest.bytes)), "if_match": newest.e_tag}
                piece = await self._store.get_async(self._key, options=part)
                target.write(await piece.bytes_async())
        draft.chmod(0o444)
        os.utime(draft, ns=(newest.nanoseconds, newest.nanoseconds))
        draft.replace(file)

    @contextmanager
    def _explained(self) -> Iterator[None]:
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
            if detail := _DETAIL.search(text):
                why += f" ({detail[1] or detail[2]})"
            fix = f"check the bucket's name, and in the environment {_SETTINGS[urlsplit(self.url).scheme]}"
            raise BucketError(f"the bucket {self._folder} cannot be used: {why}. Fix: {fix}.") from error


def _is_current(file: Path, newest: Published) -> bool:
    return file.exists() and (file.stat().st_size, file.stat().st_mtime_ns) == (newest.bytes, newest.nanoseconds)
