"""The main job: list the accounts and scan their feeds meanwhile, merge, publish.

flows/sync.py and backfill.py are its flows.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from connectors.warehouse.merge.run_counts import MergeStats
from flows.engine.batch_scan import sync_batch
from flows.engine.closing import close_run, finish_run
from flows.engine.concurrency import fail_fast_group
from flows.engine.listing import list_accounts
from flows.engine.publishing import Published, publish_snapshot
from flows.engine.run import Run, RunResources, open_run
from flows.engine.run_request import RunRequest
from flows.reporting.progress import Progress
from flows.reporting.run_report import RunReport

T = TypeVar("T")


class Tracker(Protocol):
    """Runs a step of a run: by calling it, or as a Prefect task run (flows/orchestration/tracker.py)."""

    async def __call__(self, step: Callable[..., Coroutine[Any, Any, T]], run: Run, *args: object) -> T:
        """Return the result of `step(run, *args)`."""


async def untracked(step: Callable[..., Coroutine[Any, Any, T]], run: Run, *args: object) -> T:
    """Call a step. Prefect is not involved."""
    return await step(run, *args)


async def run_sync(
    request: RunRequest, resources: RunResources, *, track: Tracker = untracked, progress: Progress | None = None
) -> RunReport:
    """Run one sync of everything that the key gives access to, or one backfill, and publish the result.

    Errors of the API become outcomes, never exceptions. A run that is cancelled or fails is marked as interrupted; the
    next one resumes it.

    Raises WarehouseUnusable if the disk or DuckDB fails, or this machine's clock is behind; OtherService if the
    warehouse belongs to another address; for a backfill also SelectionError and NothingChosen.
    """
    async with open_run(request, resources, progress or Progress()) as run:
        async with fail_fast_group() as scans:
            # A backfill's accounts are in the batcher since the run was opened; a sync's are listed into it.
            if request.selection is None:
                listing = scans.create_task(track(list_accounts, run))
                # One after the other, if the number of requests is limited.
                if run.batcher.in_turn:
                    await listing
            async for batch in run.batcher.batches():
                scanning = scans.create_task(track(sync_batch, run, batch))
                if run.batcher.in_turn:
                    await scanning
        await track(merge, run)
        report = await close_run(run)
        published = None if report.publish_refusal else await track(publish, run)
        return await finish_run(run, report, published)


async def merge(run: Run) -> MergeStats:
    """Merge all landed pages into the tables; return the statistics of all merges of this run."""
    run.progress.ending = "merge"
    return await run.resources.warehouse.merge()


async def publish(run: Run) -> Published:
    """Publish the snapshot that analysts read, and renew the HTML report if there is one."""
    resources, run.progress.ending = run.resources, "publish"
    return await publish_snapshot(resources.warehouse, run.request, resources.bucket, now=run.clock.now())
