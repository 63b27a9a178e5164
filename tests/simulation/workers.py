"""Simulates scenarios whose accounts are scanned in tasks, as on a Dask cluster."""

from flows.engine.pipeline import run_sync
from flows.engine.run_context import RunResources
from flows.engine.run_request import RunRequest
from flows.reporting.run_report import RunReport
from tests.flows.fake_dask import in_tasks
from tests.simulation.simulator import Simulator


class WorkersSimulator(Simulator):
    """Simulates a scenario with workers, which never die before the run does."""

    tasks: int = 0

    async def sync(self, request: RunRequest, resources: RunResources) -> RunReport:
        async with in_tasks(resources) as (elsewhere, client):
            try:
                return await run_sync(request, elsewhere)
            finally:
                self.tasks += len(client.tasks)
