"""Publishing as a Prefect flow."""

from pathlib import Path

from humanize import naturalsize
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import BaseModel, ConfigDict

from flows.config.options import setting
from flows.config.settings import load
from flows.engine.upkeep import publish_now
from flows.orchestration.flow_run import conclude, notices_in_flow_run, run_name
from flows.reporting.recording import record_failed_start


class PublishOptions(BaseModel):
    """Settings that differ for one publishing. Empty fields: as configured."""

    model_config = ConfigDict(extra="forbid", title="Publish")

    warehouse: Path | None = setting("warehouse")
    snapshot: str | None = setting("snapshot")
    busy_wait: float | None = setting("busy_wait")


@flow(name="publish", flow_run_name=run_name, persist_result=False, retries=0)
async def publish(options: PublishOptions | None = None) -> State[int]:
    """Merge landed pages and publish a new snapshot, without API requests."""
    return await conclude(_publish(options or PublishOptions()))


async def _publish(options: PublishOptions) -> State[int]:
    chosen = options.model_dump()
    with notices_in_flow_run():
        with record_failed_start("gramhouse publish", chosen):
            settings = load(**chosen)
        size = await publish_now(settings)
    return Completed(message=f"Published {settings.snapshot} ({naturalsize(size)}).", data=size)
