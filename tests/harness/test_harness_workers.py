"""The same scenarios and checks, with scans in tasks of one page each, on workers that never die before the run."""

from typing import Any

import pytest

from flows import pipeline
from flows.engine.dask import task
from flows.engine.run import RunResources
from flows.engine.run_request import RunRequest
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from tests.flows.fake_dask import in_tasks
from tests.harness.scenario import generate
from tests.harness.simulation import simulate


@pytest.mark.parametrize("seed", [8, pytest.param(3, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)])
def test_what_users_see_is_right_with_workers(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    tasks = 0

    async def on_workers(request: RunRequest, resources: RunResources, **more: Any) -> RunReport:  # noqa: ANN401
        nonlocal tasks
        async with in_tasks(resources) as (elsewhere, client):
            try:
                return await run_sync(request, elsewhere, **more)
            finally:
                tasks += len(client.tasks)

    monkeypatch.setattr(pipeline, "run_sync", on_workers)
    monkeypatch.setattr(task, "MOST_BYTES", 1)
    result = simulate(generate(seed, 1))
    assert result.violation is None, f"{result.scenario}\n{result.violation}"
    assert tasks > 10
