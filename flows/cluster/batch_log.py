"""The log of a batch: create-only entries, numbered without gaps, in which pages land until the loader merges them.

Two attempts at a batch cannot write the same entry: the attempt whose next number already exists is fenced out.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
import pyarrow as pa

from connectors.store.object_store import ObjectStore, StoreError
from flows.cluster.stop_mark import StopMark
from models.page_commit import PageCommit


class Fenced(Exception):  # noqa: N818 - it ends an attempt and is not an error
    """Another attempt at the batch has replaced this one, or its run has ended."""


class End(StrEnum):
    """Why a log is closed."""

    DONE = "done"
    """Every scan of the batch has its outcome."""
    SEALED = "sealed"
    """The run has ended; the next one resumes the unfinished scans."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests that an attempt made since its previous entry; the names are those of `Counters`."""

    requests: int = 0
    retries: int = 0
    restarted: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """Commits that an attempt landed together. `stop`: an error found by the attempt that ends the run.

    `part` has the items of the pages whose body is empty. `seen`: the ids of the items of these pages, for scans that
    are unfinished at the end of the entry, by scan.
    """

    attempt: str
    commits: tuple[PageCommit, ...] = ()
    part: bytes | None = None
    seen: dict[str, list[str]] = field(default_factory=dict)
    requests: Requests = Requests()
    end: End | None = None
    stop: StopMark | None = None


def encode(entry: Entry) -> bytes:
    """Return an entry in its stored form: the uncompressed size (8 bytes), then compressed MessagePack."""
    data = msgspec.msgpack.encode(entry)
    return len(data).to_bytes(8, "big") + bytes(pa.compress(data, codec="zstd", asbytes=True))


def decode(data: bytes) -> Entry:
    """Decode a stored entry. Raises StoreError if it is invalid."""
    try:
        size = int.from_bytes(data[:8], "big")
        text = pa.decompress(data[8:], decompressed_size=size, codec="zstd", asbytes=True)
        return msgspec.msgpack.decode(text, type=Entry)
    except (msgspec.MsgspecError, pa.ArrowException, OSError) as error:
        message = f"an entry of the store cannot be read ({error}). Fix: install the same version everywhere."
        raise StoreError(message) from error


@dataclass(slots=True)
class BatchLog:
    """The log at `prefix` in the store, read or written up to `last`."""

    store: ObjectStore
    prefix: str
    last: int = 0

    async def next(self) -> Entry | None:
        """Return the next entry, or None if it does not exist yet. Raises StoreError."""
        data = await self.store.get(self._key(self.last + 1))
        if data is None:
            return None
        self.last += 1
        return decode(data)

    async def read(self) -> AsyncIterator[Entry]:
        """Yield all entries that exist, beginning with the next one. Raises StoreError."""
        while (entry := await self.next()) is not None:
            yield entry

    async def append(self, entry: Entry) -> None:
        """Write the next entry. Raises Fenced if it already exists, and StoreError."""
        if not await self.store.create(self._key(self.last + 1), encode(entry)):
            message = f"{self.prefix} has another entry {self.last + 1}"
            raise Fenced(message)
        self.last += 1

    def _key(self, number: int) -> str:
        return f"{self.prefix}/{number:06}"
