"""The sync as a Prefect flow, and the steps of a run as tasks. The main job is in flows/pipeline.py.

Progress is stored in the state only: Prefect keeps no results and repeats no step; the engine does.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from humanize import naturalsize
from prefect import Task, flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from connectors.warehouse.queries.outcomes import read_counts
from flows.config.options import SyncOptions
from flows.engine.run import Batch, Run
from flows.orchestration.flow_run import run_in_flow, run_name
from flows.pipeline import DIRECT, Steps
from flows.reporting.run_report import RunReport
from flows.reporting.words import changes, count, tally
from models.runs import DONE, OutcomeKind


@task(task_run_name="account catalogue", cache_policy=NO_CACHE, persist_result=False)
async def list_accounts(run: Run) -> State[Any]:
    """List the accounts of the key."""
    outcome = await DIRECT.list_accounts(run)
    if outcome is None:
        stopped_by = run.dispatcher.stopped_by
        return Completed(message="No requests are left.") if stopped_by is None else Failed(message=str(stopped_by))
    why = f": {outcome.detail}" if outcome.detail else ""
    text = f"{outcome.kind}: {count(outcome.pages, 'page')}, {count(outcome.items, 'account')}{why}"
    return (Failed if outcome.kind is OutcomeKind.FAILED else Completed)(message=text, data=outcome)


@task(task_run_name="{batch}", cache_policy=NO_CACHE, persist_result=False)
async def scan_batch(run: Run, batch: Batch) -> State[Any]:
    """Scan the posts and stories of a batch of accounts."""
    done = await DIRECT.scan_batch(run, batch)
    if (stopped_by := run.dispatcher.stopped_by) is not None:
        return Failed(message=str(stopped_by), data=done)
    lost = done[OutcomeKind.FAILED] and not any(done[kind] for kind in (*DONE, OutcomeKind.DEFERRED))
    return (Failed if lost else Completed)(message=tally(done), data=done)


@task(task_run_name="merge", cache_policy=NO_CACHE, persist_result=False)
async def merge(run: Run) -> State[Any]:
    """Merge what has landed into the tables."""
    await DIRECT.merge(run)
    counted = await run.warehouse.do(run.files.query, read_counts, run.run_id)
    return Completed(message=changes(counted["media"]), data=counted)


@task(task_run_name="publish", cache_policy=NO_CACHE, persist_result=False)
async def publish(run: Run) -> State[Any]:
    """Publish the snapshot."""
    published = await DIRECT.publish(run)
    return Completed(message=naturalsize(published.snapshot_bytes), data=published)


def _awaited(step: Task[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a task as a step of a run: its result is that of its state, also if the state is Failed."""

    async def run_task(*args: object) -> Any:  # noqa: ANN401 - the result of any step
        result = await (await step(*args, return_state=True)).aresult(raise_on_failure=False)
        if isinstance(result, BaseException):
            raise result
        return result

    return run_task


TRACKED = Steps(_awaited(list_accounts), _awaited(scan_batch), _awaited(merge), _awaited(publish))
"""The steps as Prefect tasks."""


@flow(name="sync", flow_run_name=run_name, persist_result=False)
async def sync(options: SyncOptions | None = None) -> State[RunReport]:
    """Update the warehouse from everything that the API key can read, and publish a snapshot."""
    return await run_in_flow(options or SyncOptions(), TRACKED)
