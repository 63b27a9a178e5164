"""The workers of a Prefect work pool: each batch is a flow run of the deployment sync-batch/batch.

The state of a flow run is only used to detect lost attempts. The results are in the batch's log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType, WorkPoolStatus
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Completed, Crashed, Failed

from connectors.store.object_store import ObjectStore, StoreError
from connectors.store.opening import open_store
from flows.cluster.batch_log import Fenced
from flows.cluster.heartbeats import Listener
from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.settings import Settings, prefect_api_url
from models.clock import Clock

_log = logging.getLogger(__name__)

DEPLOYMENT = "sync-batch/batch"

# The message of the final state of a flow run that scanned its batch.
SCANNED = "Scanned."

# Seconds between two polls of the open flow runs, and the maximum number of flow runs that Prefect lists at once.
_LOOK_EVERY = 5.0
_LISTED = 200

# Timeout of Prefect's answer at the end of a run, in seconds.
_ANSWER = 10.0

# The states of a flow run that no worker has begun.
_WAITING = [StateType.SCHEDULED, StateType.PENDING]

# States that mean more than a lost attempt, by the error that they represent.
_STATES: Mapping[type[Exception], Callable[[str], State[None]]] = {
    Fenced: lambda text: Completed(name="Fenced", message=text),
    SettingsError: lambda text: Failed(name="Invalid settings", message=text),
    StoreError: lambda text: Failed(name="Store failed", message=text),
}
_ERRORS: Mapping[str | None, type[Exception]] = {state("").name: error for error, state in _STATES.items()}
ERRORS = tuple(_STATES)


def state_of(error: Exception) -> State[None]:
    """Return the state in which a flow run ends with one of `ERRORS`."""
    return next(state for kind, state in _STATES.items() if isinstance(error, kind))(str(error))


def error_of(state: State[Any]) -> BaseException | None:
    """Return the error represented by the final state of a flow run; None if it scanned its batch."""
    if (kind := _ERRORS.get(state.name)) is not None:
        return kind(state.message or state.name)
    if state.is_completed() and state.message == SCANNED:
        return None
    # A user may have set any state. The next attempt continues after the last entry of the log.
    return ConnectionError(f"its flow run is {state.name}: {state.message or 'no reason is given'}")


class PoolAttempt:
    """A flow run. See `flows.cluster.worker_batches.Attempt`."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._ended = asyncio.Event()
        self._error: BaseException | None = None

    async def ended(self) -> BaseException | None:
        """Wait until the flow run was seen in its final state; return its error, if any."""
        await self._ended.wait()
        return self._error

    def end(self, error: BaseException | None) -> None:
        """Set the result of the flow run."""
        self._error = error
        self._ended.set()

    def release(self) -> None:
        """Do nothing: a flow run that is no longer needed ends by itself, or is cancelled at the end of the run."""


class PoolWorkers:
    """The workers of a work pool. See `flows.cluster.worker_batches.Workers`."""

    # A flow run takes up to ten seconds to start.
    least = 250
    most = 5_000

    def __init__(
        self,
        client: PrefectClient,
        deployment_id: UUID,
        pool: str,
        store: ObjectStore,
        store_url: str,
        *,
        clock: Clock,
    ) -> None:
        self.absent = f"no worker of the work pool {pool} was online"
        self.remedy = f"start one (`prefect worker start --pool {pool}`) or resume the pool"
        self._client = client
        self._deployment_id = deployment_id
        self._pool = pool
        self._store = store
        self._store_url = store_url
        self._clock = clock
        self._open: dict[UUID, PoolAttempt] = {}
        self._is_first = True
        self._are_there = False
        self._look_at = clock.monotonic()

    async def submit(self, prefix: str, *, key: str) -> PoolAttempt:
        """Create a flow run for a batch. It does not contain the API key: workers have it in their environment."""
        if self._is_first:
            self._is_first = False
            await self._cancel_left()
        attempt = PoolAttempt(Listener(self._store, prefix, clock=self._clock))
        try:
            run = await self._client.create_flow_run_from_deployment(
                self._deployment_id,
                parameters={"store_url": self._store_url, "prefix": prefix},
                name=key.partition("/")[2],
                idempotency_key=key,
                tags=["gramhouse"],
            )
        except Exception as error:  # noqa: BLE001 - whatever Prefect's client raises, the batch is submitted again
            attempt.end(ConnectionError(f"Prefect created no flow run ({_line(error)})"))
        else:
            self._open[run.id] = attempt
        return attempt

    async def are_there(self) -> bool:
        """Return whether the pool has a worker, or a flow run is running. Polls Prefect at most every 5 seconds."""
        if self._clock.monotonic() >= self._look_at:
            self._look_at = self._clock.monotonic() + _LOOK_EVERY
            await self._look()
        return self._are_there

    async def _look(self) -> None:
        looked_at = list(self._open)
        try:
            pool = await self._client.read_work_pool(self._pool)
            states = await self._states(looked_at)
        except Exception as error:  # noqa: BLE001 - until Prefect answers, nothing is known of any of them
            _log.warning("Prefect does not answer: %s", _line(error))
            self._are_there = False
            return
        for one in looked_at:
            state = states.get(one)
            if state is None:
                self._open.pop(one).end(ConnectionError("its flow run was deleted"))
            elif state.is_final():
                self._open.pop(one).end(error_of(state))
        running = [one for one in self._open if one in states and states[one].is_running()]
        gone = [one for one in running if await self._open[one].listener.is_gone()]
        for one in gone:
            await self._give_up(one)
        self._are_there = len(running) > len(gone) or pool.status is WorkPoolStatus.READY

    async def _give_up(self, flow_run: UUID) -> None:
        """End a flow run that Prefect would show as running for ever, and that would occupy a slot of the pool."""
        why = "Its process is gone: it wrote no heartbeat for 5 minutes."
        self._open.pop(flow_run).end(ConnectionError(why))
        try:
            await self._client.set_flow_run_state(flow_run, Crashed(message=why), force=True)
        except Exception as error:  # noqa: BLE001 - the batch is submitted again whatever Prefect shows
            _log.warning("A flow run whose process is gone is still shown as running: %s", _line(error))

    async def _states(self, ids: Collection[UUID]) -> Mapping[UUID, State[Any]]:
        wanted, found = list(ids), dict[UUID, State[Any]]()
        for first in range(0, len(wanted), _LISTED):
            some = FlowRunFilter(id=FlowRunFilterId(any_=wanted[first : first + _LISTED]))
            runs = await self._client.read_flow_runs(flow_run_filter=some, limit=_LISTED)
            found.update((run.id, run.state) for run in runs if run.state is not None)
        return found

    async def cancel_waiting(self) -> None:
        """Cancel the flow runs that have not begun. The others end because of the run's stop mark."""
        try:
            async with asyncio.timeout(_ANSWER):
                states = await self._states(self._open)
                await self._cancel(one for one, state in states.items() if state.type in _WAITING)
        except Exception as error:  # noqa: BLE001 - a batch that begins later finds its log closed, and ends
            _log.warning("Flow runs that had not begun were not cancelled: %s", _line(error))

    async def _cancel_left(self) -> None:
        """Cancel the flow runs that a killed run left waiting: workers would begin them before those of this run.

        This run owns the store now, so no other run waits for them.
        """
        waiting = FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=[self._deployment_id]),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_WAITING)),
        )
        try:
            left, listed = list[UUID](), 0
            while runs := await self._client.read_flow_runs(flow_run_filter=waiting, limit=_LISTED, offset=listed):
                left += [run.id for run in runs if run.parameters.get("store_url") == self._store_url]
                listed += len(runs)
            await self._cancel(left)
        except Exception as error:  # noqa: BLE001 - each of them finds its log closed, and ends
            _log.warning("Flow runs of an earlier run were not cancelled: %s", _line(error))

    async def _cancel(self, flow_runs: Iterable[UUID]) -> None:
        for one in flow_runs:
            await self._client.set_flow_run_state(one, Cancelled(message="Its run has ended."), force=True)


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _check(settings: Settings) -> str:
    """Return the address of the Prefect API. Raises SettingsError."""
    api = prefect_api_url()
    if api is None:
        message = (
            "GRAMHOUSE_ENGINE=work-pool needs a Prefect server, and PREFECT_API_URL is not set. Fix: set it to the"
            " address of the server's API, such as http://127.0.0.1:4200/api."
        )
        raise SettingsError(message)
    if settings.store is None:
        message = (
            "GRAMHOUSE_STORE is not set, and workers of a work pool need it. Fix: name a bucket, such as"
            " s3://bucket/gramhouse, or a folder that all machines share."
        )
        raise SettingsError(message)
    return api


async def _deployed(client: PrefectClient, api: str) -> tuple[UUID, str]:
    """Return the deployment's id and its work pool. Raises SettingsError and TrackerUnreachable."""
    fix = "Fix: `prefect deploy --all --prefect-file deployments/batches.yaml`, see docs/scale.md."
    try:
        deployment = await client.read_deployment_by_name(DEPLOYMENT)
    except ObjectNotFound:
        message = f"Prefect has no deployment {DEPLOYMENT}. {fix}"
        raise SettingsError(message) from None
    except Exception as error:
        raise TrackerUnreachable(api) from error
    if deployment.work_pool_name is None:
        message = f"Prefect's deployment {DEPLOYMENT} has no work pool. {fix}"
        raise SettingsError(message)
    return deployment.id, deployment.work_pool_name


async def read_pool(settings: Settings) -> tuple[str, bool]:
    """Return the name of the work pool, and whether it has a worker. Raises SettingsError and TrackerUnreachable."""
    api = _check(settings)
    async with get_client() as client:
        _, pool = await _deployed(client, api)
        return pool, (await client.read_work_pool(pool)).status is WorkPoolStatus.READY


@asynccontextmanager
async def pool_workers(settings: Settings, *, clock: Clock) -> AsyncIterator[PoolWorkers]:
    """Connect to the work pool. Raises SettingsError and TrackerUnreachable."""
    api = _check(settings)
    async with get_client() as client:
        deployment_id, pool = await _deployed(client, api)
        url = settings.store_url()
        workers = PoolWorkers(client, deployment_id, pool, open_store(url, clock=clock), url, clock=clock)
        try:
            yield workers
        finally:
            await workers.cancel_waiting()
