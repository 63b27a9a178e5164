"""The stop mark of a run in the shared store, with which the run's process ends batches on workers early."""

from dataclasses import dataclass

import msgspec

from connectors.source.errors import Failure
from connectors.store.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class StopMark:
    """`failure` is why a run's batches, or with `only_media` its media scans, end early; None: it was interrupted."""

    failure: Failure | None = None
    only_media: bool = False


def stop_key(run_prefix: str) -> str:
    """Return the key of a run's stop mark in the store."""
    return f"{run_prefix}/stop"


def encode_stop(mark: StopMark) -> bytes:
    """Return a stop mark in its stored form."""
    return msgspec.msgpack.encode(mark)


async def write_stop(store: ObjectStore, run_prefix: str, mark: StopMark) -> None:
    """Write a run's stop mark. Raises StoreError."""
    await store.put(stop_key(run_prefix), encode_stop(mark))


async def read_stop(store: ObjectStore, run_prefix: str) -> StopMark | None:
    """Return a run's stop mark, if there is one. Raises StoreError."""
    data = await store.get(stop_key(run_prefix))
    return None if data is None else msgspec.msgpack.decode(data, type=StopMark)
