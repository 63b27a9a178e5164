"""Publishing as a Prefect flow."""

import asyncio
from pathlib import Path
from typing import Any

from humanize import naturalsize
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed
from pydantic import BaseModel, ConfigDict

from flows.config.options import setting
from flows.config.settings import load
from flows.engine.upkeep import publish_now
from flows.orchestration.flow_run import end_in_state, run_name


class PublishOptions(BaseModel):
    """Settings that differ for one publishing. Empty fields: as configured."""

    model_config = ConfigDict(extra="forbid", title="Publish")

    warehouse: Path | None = setting("warehouse")
    snapshot: str | None = setting("snapshot")
    busy_wait: float | None = setting("busy_wait")


@flow(name="publish", flow_run_name=run_name, persist_result=False)
async def publish(options: PublishOptions | None = None) -> State[Any]:
    """Merge landed pages and publish a new snapshot, without API requests."""
    chosen = (options or PublishOptions()).model_dump()

    async def work() -> State[Any]:
        settings = load(**chosen)
        size = await asyncio.to_thread(publish_now, settings)
        return Completed(message=f"Published {settings.snapshot} ({naturalsize(size)}).")

    return await end_in_state(work())
