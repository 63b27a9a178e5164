"""The sync as a tracked Prefect flow: a task run per batch of accounts, around the very same body."""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.states import Completed, Failed
from pydantic import BaseModel, ConfigDict, Field

from flows.batches import Batch, BatchReport, Work
from flows.means import means, order
from flows.pipeline import RunReport, run_once
from flows.report import sentence, state_name
from flows.run import Counters
from flows.settings import TrackerUnreachable, load, prefect_api_url
from models.ledger import RunState


class SyncOptions(BaseModel):
    """What one sync does otherwise than the settings say. The API key is none of it."""

    model_config = ConfigDict(extra="forbid", title="Sync options")

    base_url: Annotated[str | None, Field(title="Address of the service")] = None
    warehouse: Annotated[Path | None, Field(title="Warehouse file")] = None
    snapshot: Annotated[Path | None, Field(title="Snapshot file")] = None
    concurrency: Annotated[int | None, Field(title="Accounts walked at once", ge=1, le=256)] = None
    page_size: Annotated[int | None, Field(title="Records per page", ge=1, le=50)] = None
    max_wait: Annotated[float | None, Field(title="Seconds one limited account may make the run wait", ge=0)] = None


# DuckDB is the truth about progress, so Prefect keeps no result and repeats nothing: retries are the pipeline's.
@task(name="media", cache_policy=NO_CACHE, persist_result=False, retries=0)
async def walk_media(batch: str, work: Work) -> BatchReport:
    """Walk one batch of accounts."""
    report = await work()
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.outcomes.kinds.items()))
    get_run_logger().info("%s: %s pages, %s items; outcomes: %s", batch, report.pages, report.items, kinds or "none")
    return report


async def _as_task(batch: Batch, work: Work) -> BatchReport:
    return await walk_media.with_options(task_run_name=f"media, {batch}")(str(batch), work)


@dataclass(slots=True)
class Watcher:
    """Whoever watches from outside the flow run.

    `begun` is called inside it, before any of its work; `lost` when Prefect's server went away meanwhile, with
    one line for a person. `ended` is what the body came to, whatever becomes of Prefect.
    """

    counters: Counters
    begun: Callable[[], None]
    lost: Callable[[str], None]
    ended: RunReport | Exception | None = None


# No parameter, for Prefect would keep it.
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


async def run_sync(options: SyncOptions, counters: Counters | None = None) -> RunReport:
    """Run the sync with its batches as task runs; must be called in a flow run."""
    settings = load(**options.model_dump())
    async with means(settings, "gramhouse sync") as at_hand:
        return await run_once(order(settings), at_hand, run_batch=_as_task, counters=counters)


async def _run_watched(options: SyncOptions) -> RunReport:
    watcher = _watcher.get()
    if watcher is None:
        return await run_sync(options)
    watcher.begun()
    try:
        report = await run_sync(options, watcher.counters)
    except Exception as error:
        watcher.ended = error
        raise
    watcher.ended = report
    return report


_STATES = {RunState.COMPLETE: Completed, RunState.PARTIAL: Completed, RunState.FAILED: Failed}


def final_state(report: RunReport) -> State[RunReport]:
    """Return the flow run's last state: its name says what the run amounts to, its data is the report."""
    return _STATES[report.state](name=state_name(report), message=sentence(report), data=report)


@flow(name="sync", persist_result=False, retries=0)
async def sync(options: SyncOptions | None = None) -> State[RunReport]:
    """Bring the warehouse into step with everything the API key can see, and publish a snapshot."""
    report = await _run_watched(options or SyncOptions())
    get_run_logger().info("%s", sentence(report))
    return final_state(report)


_RUN_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


class _OnlyTrouble(logging.Filter):
    """Errors of Prefect's own; what befell the runs is said by us, in one line and without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR and not record.name.startswith(_RUN_LOGGERS)


def quiet_console() -> None:
    """Keep Prefect's lines off the terminal: they go to its server, and the terminal has its own report."""
    # Its handler stands at the root logger, and a filter stays where a level would be set anew by every run.
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(_OnlyTrouble())


async def check_tracker() -> None:
    """Ask the configured Prefect API for a sign of life; raises TrackerUnreachable."""
    async with get_client() as client:
        trouble = await client.api_healthcheck()
    if trouble is not None:
        raise TrackerUnreachable(prefect_api_url() or "The Prefect API") from trouble


async def tracked_sync(options: SyncOptions, watcher: Watcher) -> RunReport:
    """Run the sync as a flow run of the configured Prefect API; what it raises is what the body raised.

    Raises TrackerUnreachable when that API does not answer. If it goes away during the run, that is said, and the
    run ends as it would have ended.
    """
    quiet_console()
    await check_tracker()
    _watcher.set(watcher)
    try:
        await sync(options, return_state=True)
    except Exception as trouble:
        # DuckDB is the truth about progress: the run was made, though Prefect could not be told how it ended.
        if watcher.ended is None:
            raise
        said = str(trouble) or type(trouble).__name__
        watcher.lost(f"Prefect could not be told how the run ended ({said}); the report below holds all the same.")
    if watcher.ended is None:
        message = "the flow run ended without a report"
        raise TypeError(message)
    if isinstance(watcher.ended, Exception):
        raise watcher.ended
    return watcher.ended
