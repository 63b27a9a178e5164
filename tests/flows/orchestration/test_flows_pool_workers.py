"""Flow runs of batches on a real Prefect server."""

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun

from flows.orchestration.pool_workers import PoolWorkers
from tests.clocks import VirtualClock
from tests.store.memory import MemoryStore

# Prefect's client leaves connections to the garbage collector.
LEFT_OPEN = [f"ignore:{kind}" for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning")]
pytestmark = [pytest.mark.anyio, pytest.mark.prefect, *map(pytest.mark.filterwarnings, LEFT_OPEN)]

OURS, OTHER = "s3://bucket/ours", "s3://bucket/other"


@pytest.mark.usefixtures("tracker")
async def test_the_first_batch_cancels_waiting_flow_runs_of_an_earlier_run_on_the_store() -> None:
    async with get_client() as client:
        flow = await client.create_flow_from_name("sync-batch")
        deployment = await client.create_deployment(flow_id=flow, name="left")
        left, other = [
            await client.create_flow_run_from_deployment(deployment, parameters={"store_url": url})
            for url in (OURS, OTHER)
        ]
        workers = PoolWorkers(client, deployment, "a-pool", MemoryStore(), OURS, clock=VirtualClock())
        await workers.submit("runs/2/1", key="a/runs/2/1-1")
        (own,) = [run for run in await client.read_flow_runs() if run.parameters.get("prefix") == "runs/2/1"]

        async def state(run: FlowRun) -> str | None:
            return (await client.read_flow_run(run.id)).state_name

        assert [await state(run) for run in (left, other, own)] == ["Cancelled", "Scheduled", "Scheduled"]
        await workers.cancel_waiting()
        assert [await state(run) for run in (other, own)] == ["Scheduled", "Cancelled"]
        await client.delete_deployment(deployment)
