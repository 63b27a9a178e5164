"""The backfill as a Prefect flow. Its steps are the tasks of flows/sync.py."""

from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.clock import SystemClock
from flows.config.options import BackfillOptions
from flows.engine.plan import describe_plan, make_plan
from flows.engine.run_request import RunRequest
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.flow_run import end_flow_run, run_in_flow, run_name
from flows.sync import TRACKED


@flow(name="backfill", flow_run_name=run_name, persist_result=False)
async def backfill(options: BackfillOptions) -> State[Any]:
    """Scan the selected accounts again from the first page. History is kept; checkpoints of syncs are not affected."""
    if not options.dry_run:
        return await run_in_flow(options, TRACKED)
    try:
        settings = await load_with_credentials(options.expert.model_dump())
        plan = make_plan(RunRequest(settings, options), now=SystemClock().now())
    except Exception as error:  # noqa: BLE001 - raised again unless a user can fix it
        return await end_flow_run(error)
    return Completed(message=describe_plan(plan))
