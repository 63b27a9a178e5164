"""The log of a batch: create-only entries, numbered without a gap, in which pages land until the loader merges them.

Two attempts at a batch cannot both write an entry: the one that finds its next number taken is fenced out.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import pyarrow as pa

from connectors.store.object_store import ObjectStore, StoreError
from flows.cluster.stop_mark import StopMark
from models.page_commit import PageCommit


class Fenced(Exception):  # noqa: N818 - it ends an attempt, and is nothing to repair
    """Another attempt at the batch has replaced this one, or its run has ended."""


class End(StrEnum):
    """What closes a log."""

    DONE = "done"
    """Every scan of the batch has its outcome."""
    SEALED = "sealed"
    """The run has ended; the next one resumes what is not done."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests that an attempt made since its entry before; the names are those of `Counters`."""

    requests: int = 0
    retries: int = 0
    restarted: int = 0
    requests_saved: int = 0
    requests_savable: float = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """What one attempt landed together. `stop`: what it found that ends the run."""

    attempt: str
    commits: tuple[PageCommit, ...] = ()
    requests: Requests = Requests()
    end: End | None = None
    stop: StopMark | None = None


def encode(entry: Entry) -> bytes:
    """Return an entry as it is stored: MessagePack, compressed, behind its size."""
    data = msgspec.msgpack.encode(entry)
    return len(data).to_bytes(8, "big") + bytes(pa.compress(data, codec="zstd", asbytes=True))


def decode(data: bytes) -> Entry:
    """Return a stored entry. Raises StoreError where it is none."""
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
        """Return the next entry; None where there is none yet. Raises StoreError."""
        data = await self.store.get(self._key(self.last + 1))
        if data is None:
            return None
        self.last += 1
        return decode(data)

    async def read(self) -> AsyncIterator[Entry]:
        """Yield the entries there are, from the next one on. Raises StoreError."""
        while (entry := await self.next()) is not None:
            yield entry

    async def append(self, entry: Entry) -> None:
        """Write the next entry. Raises Fenced where there is one, and StoreError."""
        if not await self.store.create(self._key(self.last + 1), encode(entry)):
            message = f"{self.prefix} has another entry {self.last + 1}"
            raise Fenced(message)
        self.last += 1

    def _key(self, number: int) -> str:
        return f"{self.prefix}/{number:06}"
