"""The specification of a batch: everything a worker needs to scan it, except for the API key.

It is written to the shared store before the batch is submitted.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from connectors.store.object_store import ObjectStore, StoreError
from flows.engine.batches import Batch
from flows.engine.run_context import ScanMode
from models.checkpoint import Checkpoint, RunKind
from models.incremental import ClosedScan
from models.media_page import PagePaths
from models.partition import Partition
from models.schema.fields import Field
from models.schema.mapping import Mapping


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """How to send requests to the API: its address, the paths in its pages, and limits. `max_wait` is in seconds.

    `mapping` is the one of the settings, `stored_mapping` the one by which the warehouse's rows are read.
    """

    base_url: str
    paths: PagePaths
    mapping: Mapping
    stored_mapping: Mapping
    page_size: int
    concurrency: int
    max_wait: float
    scan_expired: bool


@dataclass(frozen=True, slots=True)
class KnownBefore:
    """The warehouse's data about a batch's accounts: see `flows.engine.run_context.ScanStore`.

    `cooldowns`: the end of each tenant scope's cooldown. `seen`: the ids that unfinished scans have received, by scan.
    `closed` and `known`: the last closed scans, and the posts that a recent scan may stop at, by account. `registry`:
    the fields of media items. `hashes`: the hashes of the stored items of a partition, 16 bytes each, joined.
    """

    checkpoints: tuple[Checkpoint, ...] = ()
    cooldowns: dict[str, datetime] = field(default_factory=dict)
    seen: dict[str, frozenset[str]] = field(default_factory=dict)
    closed: dict[str, ClosedScan] = field(default_factory=dict)
    known: dict[str, frozenset[str]] = field(default_factory=dict)
    registry: tuple[Field, ...] = ()
    hashes: tuple[tuple[Partition, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """A batch of a run and how to scan it; see `ScanContext` for the fields of the same name."""

    run_id: str
    started_at: datetime
    resumed_runs: tuple[str, ...]
    fresh_within: timedelta
    run_kind: RunKind
    mode: ScanMode
    batch: Batch
    api: ApiAccess
    before: KnownBefore


def run_prefix(sequence: int) -> str:
    """Return the prefix of a run's objects in the store."""
    return f"runs/{sequence:08}"


def batch_prefix(sequence: int, batch: int) -> str:
    """Return the prefix of a batch's objects in the store."""
    return f"{run_prefix(sequence)}/{batch:06}"


async def write_spec(store: ObjectStore, prefix: str, spec: BatchSpec) -> None:
    """Write a batch's specification. Raises StoreError."""
    await store.put(f"{prefix}/batch", msgspec.msgpack.encode(spec))


async def read_spec(store: ObjectStore, prefix: str) -> BatchSpec:
    """Return a batch's specification. Raises StoreError if it does not exist, or was written by another version."""
    data = await store.get(f"{prefix}/batch")
    if data is None:
        message = f"the store has no batch {prefix}. Fix: run the same command again."
        raise StoreError(message)
    try:
        return msgspec.msgpack.decode(data, type=BatchSpec)
    except msgspec.MsgspecError as error:
        message = f"batch {prefix} was written by another version of gramhouse ({error}). Fix: install one version."
        raise StoreError(message) from error
