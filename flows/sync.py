"""The sync as a Prefect flow."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.config.options import SyncOptions
from flows.orchestration.flow_run import conclude, run_in_flow, run_name
from flows.reporting.run_report import RunReport


@flow(name="sync", flow_run_name=run_name, persist_result=False, retries=0)
async def sync(options: SyncOptions | None = None) -> State[RunReport]:
    """Update the warehouse from everything that the API key can read, and publish a snapshot.

    `run_sync` in flows/engine/pipeline.py calls the tasks of flows/tasks.py:

    1. `list_accounts` pages through the account catalogue, saves a cursor checkpoint with each page, and notes accounts
       whose token has expired.
    2. `sync_batch`, for each batch of accounts while others are still being listed, pages through their posts and
       stories, waits on 429 as long as Retry-After says, and skips accounts with an expired token.
    3. `merge` writes the landed pages into the tables, in one transaction. There are also merges during the scans.
    4. `publish` replaces the snapshot that analysts read.

    Without PREFECT_API_URL the command line calls `run_sync` itself, without Prefect.
    """
    return await conclude(run_in_flow(options or SyncOptions(), "gramhouse sync"))
