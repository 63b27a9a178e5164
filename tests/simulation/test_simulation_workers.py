"""Scenarios with scans in tasks of one page each; the checks are the same."""

from pathlib import Path

import pytest

from flows.engine.dask import task
from flows.engine.run import RunResources
from flows.engine.run_request import RunRequest
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models import incremental
from tests.flows.fake_dask import in_tasks
from tests.model.recent import RUN
from tests.simulation.disk import Disk
from tests.simulation.scenario import generate_scenario
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


@pytest.mark.parametrize(
    ("seed", "recent"),
    [(3, 1), pytest.param(0, 0, marks=pytest.mark.long), pytest.param(4, 0, marks=pytest.mark.long)],
)
def test_the_snapshot_is_correct_under_any_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, recent: int
) -> None:
    monkeypatch.setattr(incremental, "KNOWN_RUN", RUN)
    monkeypatch.setattr(task, "MOST_BYTES", 1)
    simulator = WorkersSimulator(generate_scenario(seed, 4), Disk(tmp_path))
    simulator.run()
    assert simulator.ended >= 3
    assert simulator.recent >= recent
    assert simulator.tasks > 20
