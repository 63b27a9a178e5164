"""The four steps of a run, by the run's id: as functions here, as Prefect's tasks in flows/tasks.py."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.warehouse.merge.run_counts import MergeStats
from flows.engine.accounts import scan_catalogue
from flows.engine.batches import Batch, BatchReport
from flows.engine.run_context import RunContext
from flows.engine.run_request import RunRequest
from flows.engine.snapshot_upload import upload
from flows.reporting.renewing import renew
from models.partition import Surface
from models.runs import Outcome

# The runs of this process that are under way, by their ids: arguments of a task can be pickled, a warehouse cannot.
_OPEN: dict[str, RunContext] = {}


@contextmanager
def open_run(run: RunContext) -> Iterator[None]:
    """Let the steps find a run by its id, as long as the block runs."""
    _OPEN[run.run_id] = run
    try:
        yield
    finally:
        del _OPEN[run.run_id]


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot's size in bytes, None where it was left as it was; and the HTML report, if it was renewed."""

    snapshot_bytes: int | None
    report: Path | None


async def list_accounts(run_id: str, surfaces: tuple[Surface, ...]) -> Outcome:
    """Page through the account catalogue, a checkpoint with each page; what is listed goes into batches at once."""
    return await scan_catalogue(_OPEN[run_id], surfaces)


async def sync_batch(run_id: str, batch: Batch) -> BatchReport:
    """Scan the media of a batch's accounts: here, or where the run's engine has it scanned."""
    run = _OPEN[run_id]
    return await run.engine.sync_batch(run, batch)


async def merge(run_id: str) -> MergeStats:
    """Merge all that has landed; return what this run's merges did."""
    return await _OPEN[run_id].resources.warehouse.merge()


async def publish(run_id: str, request: RunRequest) -> Published:
    """Publish a snapshot, and renew the HTML report where the request names one."""
    run = _OPEN[run_id]
    at = run.resources.clock.now()
    size = await run.resources.warehouse.publish(
        request.snapshot,
        at=at,
        version=request.version,
        stale_after=request.stale_after,
        full_refresh_every=request.full_refresh_every,
    )
    if (bucket := run.resources.bucket) is not None:
        await upload(bucket, run.resources.warehouse, request.snapshot, at=at, new_id=run.resources.new_id)
    report = None if request.report is None else await renew(request.snapshot, request.report, say=run.say)
    return Published(size, report)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run; see the functions of the same names."""

    list_accounts: Callable[[str, tuple[Surface, ...]], Coroutine[Any, Any, Outcome]] = list_accounts
    sync_batch: Callable[[str, Batch], Coroutine[Any, Any, BatchReport]] = sync_batch
    merge: Callable[[str], Coroutine[Any, Any, MergeStats]] = merge
    publish: Callable[[str, RunRequest], Coroutine[Any, Any, Published]] = publish


DIRECT = Steps()
