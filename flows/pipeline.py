"""The main job: list the accounts and scan their feeds meanwhile, merge, publish.

flows/sync.py and backfill.py are its flows.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from flows.config.run_request import RunRequest
from flows.engine.closing import close_run, report_run
from flows.engine.publishing import Published, publish_snapshot
from flows.engine.resources import RunResources, open_resources
from flows.engine.run import Batch, Run, open_run
from flows.engine.scanning import fail_fast_group, list_accounts, scan_batch
from flows.reporting.progress import Progress
from flows.reporting.run_report import RunReport
from models.runs import Outcome


async def merge(run: Run) -> None:
    """Merge all landed pages into the tables."""
    run.progress.ending = "merge"
    await run.warehouse.merge()


async def publish(run: Run) -> Published:
    """Publish the snapshot that analysts read, and renew the HTML report if there is one."""
    run.progress.ending = "publish"
    return await run.warehouse.do(publish_snapshot, run.files, run.request.settings, now=run.clock.now())


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run that are shown one by one: called here, or as the Prefect tasks of flows/sync.py."""

    list_accounts: Callable[[Run], Coroutine[Any, Any, Outcome | None]] = list_accounts
    scan_batch: Callable[[Run, Batch], Coroutine[Any, Any, Counter[str]]] = scan_batch
    merge: Callable[[Run], Coroutine[Any, Any, None]] = merge
    publish: Callable[[Run], Coroutine[Any, Any, Published]] = publish


DIRECT = Steps()
"""Without Prefect."""


async def start_run(request: RunRequest, steps: Steps = DIRECT, progress: Progress | None = None) -> RunReport:
    """Open the resources of a run, and workers if the settings want them; make the run, as `run_sync` does."""
    settings = request.settings
    async with open_resources(settings, f"gramhouse {request.options.kind}", progress) as resources:
        if settings.scheduler is None and not settings.workers:
            return await run_sync(request, resources, steps)
        # Imported here, because few runs have workers.
        from flows.scale import open_workers  # noqa: PLC0415

        async with open_workers(settings) as workers:
            settings = settings.model_copy(update={"concurrency": workers.tasks * settings.concurrency})
            return await run_sync(replace(request, settings=settings), replace(resources, send=workers.send), steps)


async def run_sync(request: RunRequest, resources: RunResources, steps: Steps = DIRECT) -> RunReport:
    """Run one sync of everything that the key gives access to, or one backfill, and publish the result.

    Errors of the API become outcomes, never exceptions. A run that is cancelled or fails is marked as interrupted; the
    next one resumes it.

    Raises WarehouseUnusable if the disk or DuckDB fails, or this machine's clock is behind; OtherService if the
    warehouse belongs to another address; NothingChosen if nothing is due or selected; for a
    backfill also SelectionError.
    """
    async with open_run(request, resources) as run:
        async with fail_fast_group() as scans:
            if run.choice.lists_catalogue:
                scans.create_task(steps.list_accounts(run))
            # While accounts are still being listed, unless they are known.
            async for batch in run.batches():
                scans.create_task(steps.scan_batch(run, batch))
        await run.settle_rest()
        await steps.merge(run)
        await run.warehouse.do(close_run, run)
        published = await steps.publish(run)
        return await run.warehouse.do(report_run, run, published)
