"""The backfill as a Prefect flow. Its steps are the tasks of flows/sync.py."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.clock import SystemClock
from flows.config.options import BackfillOptions
from flows.config.run_request import RunRequest
from flows.engine.plan import describe_plan, make_plan
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.flow_run import end_in_state, run_in_flow, run_name
from flows.sync import TRACKED


@flow(name="backfill", flow_run_name=run_name, persist_result=False)
async def backfill(options: BackfillOptions) -> State[Any]:
    """Scan the selected accounts again from the first page. History is kept; checkpoints of syncs are not affected."""
    if not options.dry_run:
        return await run_in_flow(options, TRACKED)

    async def plan() -> State[Any]:
        settings = await load_with_credentials(options.expert.model_dump())
        made = make_plan(RunRequest(settings, options), now=SystemClock().now())
        return Completed(message=describe_plan(made))

    return await end_in_state(plan())
