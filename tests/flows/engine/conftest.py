from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flows.engine.dask import task
from flows.engine.run import RunResources
from tests import runs
from tests.flows import fake_dask


# tests/harness and tests/e2e/cluster test tasks, too, so `make test` runs these tests only in this process.
@pytest.fixture(params=["here", pytest.param("in tasks", marks=pytest.mark.long)])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test twice: scans in this process, and in tasks of a Dask cluster that end after one page."""
    if request.param == "in tasks":
        monkeypatch.setattr(task, "MOST_BYTES", 1)

        @asynccontextmanager
        async def scanning(resources: RunResources) -> AsyncIterator[RunResources]:
            async with fake_dask.in_tasks(resources) as (in_tasks, _):
                yield in_tasks

        monkeypatch.setattr(runs, "scanning", scanning)
    way: str = request.param
    return way
