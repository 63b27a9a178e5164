"""Objects in a bucket of S3, Google Cloud Storage or Azure, with obstore."""

import asyncio
import atexit
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import from_url

from connectors.buckets.address import BucketError

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


class Bucket:
    """Objects below a prefix of a bucket, by key; every method raises BucketError.

    Credentials and endpoint come from the cloud's environment variables.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix, self._endpoint, self._settings = _VARIABLES[urlsplit(url).scheme]
        self._check_environment()
        with self._reporting():
            self._store: Any = from_url(url, retry_config=_RETRIES)

    async def put(self, key: str, data: bytes) -> None:
        """Write an object atomically, replacing one with the same key."""
        with self._reporting():
            await obstore.put_async(self._store, key, data)

    async def get(self, key: str) -> bytes | None:
        """Return an object's content; None if it does not exist."""
        with self._reporting(), suppress(*_MISSING):
            return bytes(await (await obstore.get_async(self._store, key)).bytes_async())
        return None

    async def list(self, prefix: str) -> list[str]:
        """Return the keys below a prefix, sorted; new objects may be missing for a while."""
        with self._reporting():
            return sorted([meta["path"] async for page in obstore.list(self._store, prefix) for meta in page])

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; keys that do not exist are ignored."""
        for key in keys:
            with self._reporting(), suppress(*_MISSING):
                await obstore.delete_async(self._store, key)

    async def upload(self, key: str, file: Path) -> None:
        """Write a file's content as an object, atomically."""
        size = (await asyncio.to_thread(file.stat)).st_size
        part = max(_PART, size // _MOST_PARTS + 1)
        with self._reporting():
            await obstore.put_async(self._store, key, file, chunk_size=part, max_concurrency=_PARTS_AT_ONCE)

    async def download(self, key: str, file: Path, size: int) -> None:
        """Write an object of this many bytes to a file, without fsync."""
        with self._reporting(), file.open("wb") as target:
            for start in range(0, size, _PART):
                length = min(_PART, size - start)
                piece = await obstore.get_range_async(self._store, key, start=start, length=length)
                await asyncio.to_thread(target.write, piece)

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
            return self._unusable(
                f"{self._endpoint} is not https://", f"use https://, or set {self._prefix}_ALLOW_HTTP=true"
            )
        # The body of a response begins with "<", if it is XML or HTML.
        why = text.splitlines()[0].partition(": <")[0][:300].rstrip(". ")
        detail = _DETAIL.search(text)
        if detail and detail[detail.lastindex or 0] not in why:
            why += f" ({detail[detail.lastindex or 0]})"
        return self._unusable(why, fix)

    def _unusable(self, why: str, fix: str) -> BucketError:
        return BucketError(f"the bucket {self._url} cannot be used: {why}. Fix: {fix}.")
