"""Each step of a run as a Prefect task run.

Progress is stored only in DuckDB. Prefect keeps no results and does not retry; the engine does.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from humanize import naturalsize
from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from flows.engine.batch_scan import sync_batch
from flows.engine.listing import list_accounts
from flows.engine.run import Run
from flows.pipeline import merge, publish
from flows.reporting.words import changes, count
from models.runs import Outcome

T = TypeVar("T")


def _listed(outcome: Outcome) -> str:
    why = f": {outcome.detail}" if outcome.detail else ""
    return f"{outcome.kind}: {count(outcome.pages, 'page')}, {count(outcome.items, 'account')}{why}"


def _scanned(done: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in done.items())


def _task(step: Callable[..., Coroutine[Any, Any, T]], name: str, described: Callable[[T], str]) -> Task[..., Any]:
    """Return a step as a task that logs its result."""

    @task(task_run_name=name, cache_policy=NO_CACHE, persist_result=False, retries=0)
    @wraps(step)
    async def logged(*args: object) -> T:
        result = await step(*args)
        get_run_logger().info("%s", described(result))
        return result

    return logged


_TASKS = {
    list_accounts: _task(list_accounts, "account catalogue", _listed),
    sync_batch: _task(sync_batch, "{batch}", _scanned),
    merge: _task(merge, "merge", changes),
    publish: _task(publish, "publish", lambda published: naturalsize(published.snapshot_bytes)),
}


async def tracked(step: Callable[..., Coroutine[Any, Any, T]], run: Run, *args: object) -> T:
    """Run a step as a task run of the current flow run."""
    result: T = await _TASKS[step](run, *args)
    return result
