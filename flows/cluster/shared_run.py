"""Runs in the shared store: one at a time, numbered; each first merges the data that earlier runs left there."""

import json
import logging
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
from flows.cluster.stop_mark import StopMark, write_stop
from flows.reporting.words import Say
from models.clock import Clock

_log = logging.getLogger(__name__)

_OWNER = "gramhouse.json"

# How long the objects of a run are kept after its end, for the analysis of failures.
_RETENTION = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A run in the shared store; `sequence` is its number there."""

    store: ObjectStore
    warehouse: Warehouse
    sequence: int

    async def close(self, *, now: datetime) -> None:
        """Mark the run as merged, and remove the objects of runs that ended long ago. Raises StoreError."""
        # The end mark is first: objects without one are never removed, and a kill may follow the transaction.
        await self.store.put(f"{run_prefix(self.sequence)}/end", now.isoformat().encode())
        await self.warehouse.transact(close_run, self.sequence)
        try:
            await _remove_old(self.store, now)
        except StoreError as error:
            # The run itself has succeeded; the next one tries again.
            _log.warning("old runs stay in the store: %s", error)


async def begin_shared_run(
    store: ObjectStore, store_url: str, warehouse: Warehouse, *, clock: Clock, new_id: Callable[[], str], say: Say
) -> SharedRun:
    """Check the store, merge the data that earlier runs left in it, and begin the next run there.

    Raises StoreError if the store cannot be used, belongs to another warehouse, or another run has just begun in it.
    """
    await probe(store, store_url, new_id=new_id)
    await _claim(store, store_url, await warehouse.read(warehouse_id))
    known = await warehouse.read(last_run_sequence)
    found = {sequence for sequence in await _sequences(store) if sequence > known}
    following = known + 1
    # Also look up the next keys: a run that was killed as it began may not be listed yet.
    while await store.get(f"{run_prefix(following)}/run") is not None:
        found.add(following)
        following += 1
    for sequence in await warehouse.read(open_run_sequences):
        await _take_over(SharedRun(store, warehouse, sequence), store_url, clock=clock, attempt=new_id(), say=say)
    for sequence in sorted(found):
        # That run was killed as it began, or this warehouse is an older copy. The warehouse may have read newer pages
        # since then, so the pages of that run are not merged: they would be taken for the newest.
        await write_stop(store, run_prefix(sequence), StopMark())
        await store.put(f"{run_prefix(sequence)}/end", clock.now().isoformat().encode())
    sequence = max([known, *found], default=0) + 1
    begun = json.dumps({"began_at": clock.now().isoformat(), "id": new_id()}).encode()
    if not await store.create(f"{run_prefix(sequence)}/run", begun):
        message = f"another run has just begun in the store {store_url}. Fix: wait for its end, and run this again."
        raise StoreError(message)
    await warehouse.transact(enter_run, sequence)
    return SharedRun(store, warehouse, sequence)


async def merge_left(
    store: ObjectStore, store_url: str, warehouse: Warehouse, *, clock: Clock, new_id: Callable[[], str], say: Say
) -> None:
    """Merge the pages that runs on workers left, before a run in one process lands newer ones. Raises StoreError.

    If the store belongs to another warehouse, these pages are dropped: merged later, they would be taken for the
    newest.
    """
    left = await warehouse.read(open_run_sequences)
    if left and await store.get(_OWNER) != _owner(await warehouse.read(warehouse_id)):
        say(
            f"Discarded the pages that run {left[-1]} left in a shared store, because {store_url} is a different"
            " store. They will be fetched again."
        )
        await warehouse.transact(close_run, left[-1])
        return
    for sequence in left:
        await _take_over(SharedRun(store, warehouse, sequence), store_url, clock=clock, attempt=new_id(), say=say)


async def _take_over(run: SharedRun, store_url: str, *, clock: Clock, attempt: str, say: Say) -> None:
    if await run.store.get(f"{run_prefix(run.sequence)}/run") is None:
        say(
            f"Run {run.sequence} on workers was interrupted and is not in the store {store_url}: its pages that were"
            " not merged are fetched again."
        )
        await run.warehouse.transact(close_run, run.sequence)
        return
    say(f"Merging what run {run.sequence} left in the store {store_url}.")
    await write_stop(run.store, run_prefix(run.sequence), StopMark())
    loader = Loader(run.store, run.warehouse, run.sequence, clock=clock)
    await loader.drain(await run.warehouse.read(merged_logs, run.sequence), attempt=attempt)
    await run.close(now=clock.now())


def _owner(warehouse: str) -> bytes:
    return json.dumps({"warehouse": warehouse}).encode()


async def _remove_old(store: ObjectStore, now: datetime) -> None:
    for sequence in await _sequences(store):
        end = f"{run_prefix(sequence)}/end"
        ended = await store.get(end)
        if ended is not None and now - datetime.fromisoformat(ended.decode()) > _RETENTION:
            keys = await store.list(f"{run_prefix(sequence)}/")
            # The end mark is last: what a failed deletion leaves without it would never be removed.
            await store.delete([key for key in keys if key != end])
            await store.delete([end])


async def _claim(store: ObjectStore, store_url: str, warehouse: str) -> None:
    owner = _owner(warehouse)
    if not await store.create(_OWNER, owner) and await store.get(_OWNER) != owner:
        message = f"the store {store_url} belongs to another warehouse. Fix: point GRAMHOUSE_STORE to another folder."
        raise StoreError(message)


async def _sequences(store: ObjectStore) -> list[int]:
    names = {key.split("/")[1] for key in await store.list("runs/")}
    return sorted(int(name) for name in names if name.isdecimal())
