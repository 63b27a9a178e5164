"""The backfill as a Prefect flow."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.clock import SystemClock
from flows.config.options import BackfillOptions
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.flow_run import conclude, run_in_flow, run_name
from flows.reporting.dry_run import describe_forecast, forecast


@flow(name="backfill", flow_run_name=run_name, persist_result=False, retries=0)
async def backfill(options: BackfillOptions) -> State[Any]:
    """Scan the selected accounts again from the first page. History is kept; checkpoints of syncs are not affected."""
    if options.dry_run:
        return await conclude(_estimate_requests(options))
    return await conclude(run_in_flow(options, "gramhouse backfill"))


async def _estimate_requests(options: BackfillOptions) -> State[Any]:
    settings = await load_with_credentials(options.expert.model_dump())
    text = describe_forecast(forecast(settings, options.selection(), now=SystemClock().now()))
    get_run_logger().info("%s", text)
    return Completed(name="Dry run", message=text)
