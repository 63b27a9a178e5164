"""The snapshot in a bucket: one object, which each publish replaces whole. Readers find the old one or the new one.

Every command imports this module, so that only an opened bucket imports obstore.
"""

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

_CLOUDS = ("s3://", "gs://", "az://")

# Each part is one request, which obstore limits to 30 s: that suffices at 560 kB/s. S3 accepts at most 10,000 parts.
_PART = 8 * 1024 * 1024

# The error code in a response of a server, or the system's reason why there was none.
_DETAIL = re.compile(r'<Code>(\w+)</Code>|\b(?:message|error): "([^"]+)"')


class BucketError(Exception):
    """A bucket cannot be used, or a request to it failed. The message is one line, with the fix."""


def check_url(url: str) -> str:
    """Return the normalized URL of an object in a bucket, or of a folder. Raises ValueError."""
    scheme, place, *_ = urlsplit(url)
    if not is_cloud(url):
        raise ValueError(f"{scheme}:// is not supported; write a path, or {', '.join(_CLOUDS)} and a bucket")
    if not place or "@" in place:
        raise ValueError(f"it names no bucket; write one such as {scheme}://bucket/gramhouse")
    return url.rstrip("/")


def is_cloud(url: str) -> bool:
    """Return whether an address is a bucket's URL, not a path."""
    return url.startswith(_CLOUDS)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
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
        with self._explained():
            from obstore.store import from_url  # noqa: PLC0415 - an optional dependency

            self._store: Any = from_url(self._folder)
        # obstore's threads still use Python for a moment after a request. If Python ends meanwhile, they abort it.
        atexit.register(time.sleep, 0.05)

    async def newest(self) -> StoredSnapshot | None:
        """Return what is published; None if nothing is."""
        with self._explained():
            try:
                found = await self._store.get_async(self._key, options={"head": True})
            except FileNotFoundError:
                return None
        told = found.attributes
        try:
            at = datetime.fromisoformat(told["published"])
            return StoredSnapshot(found.meta["e_tag"], found.meta["size"], at, told["warehouse"])
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
        # Azure refuses names with a dash, and some proxies those with an underscore.
        about = {"warehouse": warehouse_id, "published": at.isoformat()}
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
            changed = round(newest.published_at.timestamp() * 1_000_000) * 1000
            local = os.stat(file) if file.exists() else None  # noqa: ASYNC240, PTH116 - takes microseconds
            if local is not None and (local.st_size, local.st_mtime_ns) == (newest.bytes, changed):
                return
            draft = file.with_name(f".{file.name}.download")
            draft.unlink(missing_ok=True)
            with draft.open("wb") as target, self._explained():
                for start in range(0, newest.bytes, _PART):
                    part = {"range": (start, min(start + _PART, newest.bytes)), "if_match": newest.e_tag}
                    target.write(await (await self._store.get_async(self._key, options=part)).bytes_async())
            draft.chmod(0o444)
            os.utime(draft, ns=(changed, changed))
            draft.replace(file)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise an error of obstore, whose panics have no class that can be imported, as BucketError."""
        try:
            yield
        except ImportError as error:
            fix = "install it as docs/analyst.md says"
            raise BucketError(f"{self.url} needs the extra 'bucket'. Fix: {fix}.") from error
        except Exception as error:
            text = str(error).strip() or type(error).__name__
            # The body of a response begins with "<".
            why = text.splitlines()[0].partition(": <")[0][:300].rstrip(". ")
            if detail := _DETAIL.search(text):
                why += f" ({detail[1] or detail[2]})"
            fix = "check the bucket's name, and the cloud's variables in the environment (docs/analyst.md)"
            if type(error).__name__ == "PreconditionError":
                why, fix = "its snapshot was replaced while it was read", "run the command again"
            raise BucketError(f"the bucket {self._folder} cannot be used: {why}. Fix: {fix}.") from error
