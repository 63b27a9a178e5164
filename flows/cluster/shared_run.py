"""The run's place in the shared store: one run at a time, numbered, and each taking over what the one before left."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from connectors.store.object_store import ObjectStore, StoreError
from connectors.store.probe import probe
from connectors.warehouse.runs.batch_logs import (
    close_run,
    enter_run,
    last_run_sequence,
    merged_logs,
    open_run_sequences,
)
from connectors.warehouse.storage.connection import warehouse_id
from connectors.warehouse.warehouse import Warehouse
from flows.cluster.batch_spec import run_prefix
from flows.cluster.loader import Loader
from flows.cluster.worker import StopMark, encode_stop, stop_key
from flows.reporting.words import Say
from models.clock import Clock

_OWNER = "gramhouse.json"

# Objects of a run are kept so long after its end, for a warehouse that is restored from a backup.
_RETENTION = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A run in the shared store, by its number there."""

    store: ObjectStore
    warehouse: Warehouse
    sequence: int

    async def close(self, *, now: datetime) -> None:
        """Note that all of it is merged, and remove the objects of runs that ended long ago. Raises StoreError."""
        await self.warehouse.transact(close_run, self.sequence)
        await self.store.put(f"{run_prefix(self.sequence)}/end", now.isoformat().encode())
        for sequence in await _sequences(self.store):
            ended = await self.store.get(f"{run_prefix(sequence)}/end")
            if ended is not None and now - datetime.fromisoformat(ended.decode()) > _RETENTION:
                await self.store.delete(await self.store.list(f"{run_prefix(sequence)}/"))


async def begin_shared_run(
    store: ObjectStore, store_url: str, warehouse: Warehouse, *, clock: Clock, new_id: Callable[[], str], say: Say
) -> SharedRun:
    """Check the store, merge what earlier runs left in it, and begin the next run there.

    Raises StoreError when the store cannot be used, belongs to another warehouse, or another run took it over.
    """
    await probe(store, store_url, new_id=new_id)
    await _claim(store, store_url, await warehouse.read(warehouse_id))
    known = await warehouse.read(last_run_sequence)
    found = {sequence for sequence in await _sequences(store) if sequence > known}
    following = known + 1
    # By key, too: one that died as it began may not be listed yet.
    while await store.get(f"{run_prefix(following)}/run") is not None:
        found.add(following)
        following += 1
    left = [*await warehouse.read(open_run_sequences), *sorted(found)]
    for sequence in left:
        if sequence > known:
            await warehouse.transact(enter_run, sequence)
        say(f"Merging what run {sequence} left in the store {store_url}.")
        await _take_over(SharedRun(store, warehouse, sequence), clock=clock, attempt=new_id())
    sequence = max([known, *left], default=0) + 1
    begun = json.dumps({"began_at": clock.now().isoformat(), "id": new_id()}).encode()
    if not await store.create(f"{run_prefix(sequence)}/run", begun):
        message = f"another run has just begun in the store {store_url}. Fix: wait for its end, and run this again."
        raise StoreError(message)
    await warehouse.transact(enter_run, sequence)
    return SharedRun(store, warehouse, sequence)


async def merge_left(
    store: ObjectStore, store_url: str, warehouse: Warehouse, *, clock: Clock, new_id: Callable[[], str], say: Say
) -> None:
    """Merge what runs on workers left, before a run in one process, whose pages are newer. Raises StoreError.

    Where the store is not this warehouse's, what they left is given up: merged later, it would pass for the newest.
    """
    left = await warehouse.read(open_run_sequences)
    if left and await store.get(_OWNER) != _owner(await warehouse.read(warehouse_id)):
        say(
            f"What run {left[-1]} left in a shared store is given up, for {store_url} is another; its pages are asked"
            " for again."
        )
        await warehouse.transact(close_run, left[-1])
        return
    for sequence in left:
        say(f"Merging what run {sequence} left in the store {store_url}.")
        await _take_over(SharedRun(store, warehouse, sequence), clock=clock, attempt=new_id())


async def _take_over(run: SharedRun, *, clock: Clock, attempt: str) -> None:
    await run.store.put(stop_key(run_prefix(run.sequence)), encode_stop(StopMark()))
    loader = Loader(run.store, run.warehouse, run.sequence, clock=clock)
    await loader.drain(await run.warehouse.read(merged_logs, run.sequence), attempt=attempt)
    await run.close(now=clock.now())


def _owner(warehouse: str) -> bytes:
    return json.dumps({"warehouse": warehouse}).encode()


async def _claim(store: ObjectStore, store_url: str, warehouse: str) -> None:
    owner = _owner(warehouse)
    if not await store.create(_OWNER, owner) and await store.get(_OWNER) != owner:
        message = f"the store {store_url} belongs to another warehouse. Fix: point GRAMHOUSE_STORE to another folder."
        raise StoreError(message)


async def _sequences(store: ObjectStore) -> list[int]:
    names = {key.split("/")[1] for key in await store.list("runs/")}
    return sorted(int(name) for name in names if name.isdecimal())
