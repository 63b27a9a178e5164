"""The four tasks of a flow run. Each calls the step of the same name for the run that is open in this process.

Progress is stored only in DuckDB. Prefect keeps no results and does not retry; the engine does.
"""

from humanize import naturalsize
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from connectors.warehouse.merge.run_counts import MergeStats
from flows.engine import steps
from flows.engine.batches import Batch, BatchReport
from flows.engine.run_request import RunRequest
from flows.engine.steps import Steps
from flows.engine.upkeep import Published
from flows.reporting.words import changes, count
from models.partition import Surface
from models.runs import Outcome


@task(task_run_name="account catalogue", cache_policy=NO_CACHE, persist_result=False, retries=0)
async def list_accounts(run_id: str, surfaces: tuple[Surface, ...]) -> Outcome:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired."""
    outcome = await steps.list_accounts(run_id, surfaces)
    listed = f"{count(outcome.pages, 'page')}, {count(outcome.items, 'account')}"
    why = f": {outcome.detail}" if outcome.detail else ""
    get_run_logger().info("account catalogue: %s, %s%s", outcome.kind.replace("_", " "), listed, why)
    return outcome


@task(task_run_name="{batch}", cache_policy=NO_CACHE, persist_result=False, retries=0)
async def sync_batch(run_id: str, batch: Batch) -> BatchReport:
    """Scan the media of a batch's accounts; wait on 429 as long as Retry-After says, skip expired accounts."""
    report = await steps.sync_batch(run_id, batch)
    get_run_logger().info("%s: %s", batch, report)
    return report


@task(task_run_name="merge", cache_policy=NO_CACHE, persist_result=False, retries=0)
async def merge(run_id: str) -> MergeStats:
    """Merge all landed pages into the tables."""
    merged = await steps.merge(run_id)
    get_run_logger().info("merge: %s", changes(merged))
    return merged


@task(task_run_name="publish", cache_policy=NO_CACHE, persist_result=False, retries=0)
async def publish(run_id: str, request: RunRequest) -> Published:
    """Publish the snapshot that analysts read, and renew the HTML report."""
    published = await steps.publish(run_id, request)
    get_run_logger().info("publish: %s, %s", request.snapshot, naturalsize(published.snapshot_bytes))
    return published


TASKS = Steps(list_accounts, sync_batch, merge, publish)
