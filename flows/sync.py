"""The sync as a Prefect flow. Its main job is in flows/pipeline.py."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.config.options import SyncOptions
from flows.orchestration.flow_run import conclude, run_in_flow, run_name
from flows.reporting.run_report import RunReport


@flow(name="sync", flow_run_name=run_name, persist_result=False, retries=0)
async def sync(options: SyncOptions | None = None) -> State[RunReport]:
    """Update the warehouse from everything that the API key can read, and publish a snapshot."""
    return await conclude(run_in_flow(options or SyncOptions(), "gramhouse sync"))
