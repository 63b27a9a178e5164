"""Flow runs that did not end normally: stopped with `up`, found dead at its next start, or missed in between."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from operator import attrgetter
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Cancelled, Cancelling, Crashed

from flows.orchestration.schedules import PLANS, Plan
from flows.reporting.words import Say


class RunEnd(Enum):
    """How a run that was due ended."""

    MISSED = auto()
    INTERRUPTED = auto()
    OVER = auto()


class Verdict(Enum):
    """What to do about such a run: run it now, schedule it again, or drop it."""

    RUN = auto()
    AGAIN = auto()
    DROP = auto()


@dataclass(frozen=True, slots=True)
class Due:
    """A run of a scheduled plan that was due before now."""

    plan: str
    run: UUID
    at: datetime
    fate: RunEnd


def _newest(due: Sequence[Due]) -> Mapping[str, Due]:
    return {each.plan: each for each in sorted(due, key=attrgetter("at"))}


def catch_up(due: Iterable[Due], plans: Iterable[Plan]) -> dict[UUID, Verdict]:
    """Decide what to do about each run. The newest of a plan is made up for, unless another plan's run covers it."""
    known = list(due)
    newest = _newest(known)
    wanting = {name for name, last in newest.items() if last.fate is not RunEnd.OVER}
    covered = {other for plan in plans if plan.name in wanting for other in plan.covers}
    verdicts = {each.run: Verdict.DROP for each in known if each.fate is RunEnd.MISSED}
    for name in wanting - covered:
        last = newest[name]
        verdicts[last.run] = Verdict.RUN if last.fate is RunEnd.MISSED else Verdict.AGAIN
    return verdicts


INTERRUPTED = "Interrupted"

_UNDER_WAY = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
_DUE: list[StateType] = [StateType.SCHEDULED]
_BEGUN: list[StateType] = [each for each in StateType if each is not StateType.SCHEDULED]
_PATIENCE = 12.0
_PAUSE = 0.2
# The maximum number of results of Prefect's API.
_LIMIT = 200


async def _runs(
    client: PrefectClient, deployments: Iterable[UUID], states: list[StateType], before: datetime | None = None
) -> list[FlowRun]:
    return await client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=list(deployments))),
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=states)),
            expected_start_time=FlowRunFilterExpectedStartTime(before_=before) if before else None,
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=_LIMIT,
    )


async def _put(client: PrefectClient, run: UUID, state: State[None]) -> None:
    await client.set_flow_run_state(run, state, force=True)


async def _end(client: PrefectClient, deployments: list[UUID], ended: dict[UUID, str]) -> None:
    # Queried each time: until the runner is stopped, it still starts runs that are due.
    while under_way := await _runs(client, deployments, _UNDER_WAY):
        for run in under_way:
            if run.id not in ended:
                ended[run.id] = run.name
                # Prefect's own way to end a run: its runner sees the state, and stops the run's process.
                await _put(client, run.id, Cancelling(message="`gramhouse up` is stopping."))
        await asyncio.sleep(_PAUSE)


async def end_runs(client: PrefectClient, deployments: Iterable[UUID], say: Say) -> None:
    """End all running flow runs concurrently, and wait until they have closed their resources."""
    ended: dict[UUID, str] = {}
    with suppress(TimeoutError):
        await asyncio.wait_for(_end(client, list(deployments), ended), _PATIENCE)
    for run, name in ended.items():
        if (await client.read_flow_run(run)).state_type is StateType.CANCELLED:
            message = "`gramhouse up` was stopped. Saved pages are kept; run it again to resume."
            await _put(client, run, Cancelled(name=INTERRUPTED, message=message))
            say(f"{name} was running and has been stopped.")


async def mark_dead(client: PrefectClient, deployments: Iterable[UUID], say: Say) -> None:
    """Mark runs as crashed that are shown as running, but have no process: it was killed, or the machine crashed."""
    for run in await _runs(client, deployments, _UNDER_WAY):
        message = "Its process was killed. Saved pages are kept; run it again to resume."
        await _put(client, run.id, Crashed(name=INTERRUPTED, message=message))
        say(f"{run.name} was killed while running; it is marked as crashed.")


def _run_end(run: FlowRun) -> RunEnd:
    if run.state_type is StateType.SCHEDULED:
        return RunEnd.MISSED
    # A crash just before `up` ended may have been too late for the automation that restarts crashed runs.
    crashed = run.state_type is StateType.CRASHED
    return RunEnd.INTERRUPTED if crashed or run.state_name == INTERRUPTED else RunEnd.OVER


async def start_missed_runs(client: PrefectClient, served: Mapping[str, UUID], now: datetime, say: Say) -> None:
    """Make up for runs that were due while `up` was stopped: at most one per plan; the rest are marked as missed."""
    found = {
        run.id: (plan.name, run)
        for plan in PLANS
        if plan.when and plan.name in served
        for states in (_DUE, _BEGUN)
        for run in await _runs(client, [served[plan.name]], states, now)
        if run.auto_scheduled or run.state_type is not StateType.SCHEDULED
    }
    due = [
        Due(name, run.id, run.expected_start_time, _run_end(run))
        for name, run in found.values()
        if run.expected_start_time is not None
    ]
    for run_id, verdict in catch_up(due, PLANS).items():
        name, run = found[run_id]
        if verdict is Verdict.DROP:
            message = "Missed while gramhouse was not running; a later run covers it."
            # It never began, so it still has the random name that Prefect gave it.
            await client.update_flow_run(run_id, name=f"{name} {run.expected_start_time:%Y-%m-%d %H:%M}")
            await _put(client, run_id, Cancelled(name="Missed", message=message))
        elif verdict is Verdict.AGAIN:
            if any(not one.auto_scheduled for one in await _runs(client, [served[name]], _DUE, now)):
                # It was scheduled before, and has not begun.
                continue
            await client.create_flow_run_from_deployment(served[name], parameters=run.parameters)
            say(f"{name}: {run.name} was interrupted; starting it again.")
        else:
            say(f"{name}: a run was missed at {run.expected_start_time:%Y-%m-%d %H:%M} UTC; starting it now.")
