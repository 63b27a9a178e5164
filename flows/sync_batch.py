"""A batch on a work pool as a Prefect flow."""

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from connectors.store.opening import open_store
from flows.cluster.heartbeats import write_heartbeats
from flows.cluster.worker import scan_stored
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.engine.clock import SystemClock, new_id
from flows.engine.concurrency import fail_fast_group
from flows.orchestration.pool_workers import ERRORS, SCANNED, state_of


@flow(name="sync-batch", persist_result=False, retries=0)
async def sync_batch(store_url: str, prefix: str) -> State[None]:
    """Scan a batch of accounts of a run with GRAMHOUSE_ENGINE=work-pool, which starts this flow.

    The batch is at `prefix` of the store. Pages land in its log there, and the run merges them. The API key is read
    from the settings of this machine.
    """
    try:
        _check(load(), store_url)
        await _scan(store_url, prefix)
    except ERRORS as error:
        return state_of(error)
    return Completed(message=SCANNED)


async def _scan(store_url: str, prefix: str) -> None:
    clock = SystemClock()
    async with fail_fast_group() as group:
        store = open_store(store_url, clock=clock)
        heartbeats = group.create_task(write_heartbeats(store, prefix, clock=clock, new_id=new_id))
        await scan_stored(store_url, prefix)
        heartbeats.cancel()


def _check(settings: Settings, store_url: str) -> None:
    """Check that the store is the one of this machine's settings, because it determines where requests are sent.

    Raises SettingsError.
    """
    # Without its own address, a worker would send the key to the address in the batch.
    settings.address()
    if settings.store != store_url:
        message = (
            f"this worker is for the store {settings.store}, and the batch is in {store_url}."
            " Fix: set GRAMHOUSE_STORE of the workers to the store of the run."
        )
        raise SettingsError(message)
