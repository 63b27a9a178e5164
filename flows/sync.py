"""The sync as a Prefect flow."""

from prefect import flow
from prefect.client.schemas.objects import State

from flows.config.options import SyncOptions, in_order
from flows.config.settings import Settings
from flows.engine.pipeline import RunReport, RunRequest
from flows.engine.resources import build_request
from flows.orchestration.flow_run import carry_out, run_name


@flow(name="sync", flow_run_name=run_name, persist_result=False, retries=0)
async def sync(options: SyncOptions | None = None) -> State[RunReport]:
    """Sync everything the API key can see into the warehouse and publish a snapshot."""
    asked = options or SyncOptions()

    def request(settings: Settings) -> RunRequest:
        return build_request(
            settings,
            surfaces=in_order(asked.surfaces),
            accept_removals=asked.accept_removals,
            rebind=asked.rebind,
            mode=asked.mode,
            max_requests=asked.max_requests,
        )

    return await carry_out(asked, "gramhouse sync", request)
