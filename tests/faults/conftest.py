# ruff: noqa: E402 - pytest explains only the asserts of modules it knew of before they were imported
import asyncio
import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.faults.assertions", "tests.faults.model", "tests.faults.runs")

from tests.clocks import AdvanceableLoop, VirtualClock
from tests.faults.fake_api import FakeApi
from tests.faults.faulty_replies import error_reply
from tests.faults.matrix import Moment
from tests.faults.model import Model
from tests.faults.runs import HOUR, open_test_warehouse, sync
from tests.faults.world import BEFORE, CATALOGUE, LEAVING, NOW, POSTS, Where


@dataclass(frozen=True)
class PreparedWarehouse:
    """A warehouse after some runs, its expected contents, and its clock."""

    folder: Path
    model: Model
    clock: VirtualClock


Prepare = Callable[[Moment], PreparedWarehouse]


def _copy(made: PreparedWarehouse, folder: Path) -> PreparedWarehouse:
    shutil.copy(made.folder / "warehouse.duckdb", folder)
    shutil.copytree(made.folder / "raw", folder / "raw")
    return PreparedWarehouse(folder, copy.deepcopy(made.model), VirtualClock(passed=27 * HOUR))


async def _run(ready: PreparedWarehouse, players: dict[int, FakeApi]) -> None:
    """Perform a run at each of these hours."""
    async with open_test_warehouse(ready.folder) as warehouse:
        for hour, api in players.items():
            ready.clock.passed = hour * HOUR
            found = await sync(warehouse, ready.folder, ready.clock, api)
            ready.model.sync(api.served)
            found.assert_agrees(ready.model)


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> dict[Where | None, PreparedWarehouse]:
    """Two runs without faults, and those followed by another in which the second page of a partition fails."""
    first = PreparedWarehouse(tmp_path_factory.mktemp("prepared"), Model(), VirtualClock())
    now = first.clock.now
    made: dict[Where | None, PreparedWarehouse] = {None: first}
    with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
        runner.run(_run(first, {0: FakeApi(BEFORE, now), 13: FakeApi(LEAVING, now)}))
        for cut_at in (CATALOGUE, POSTS):
            made[cut_at] = cut = _copy(first, tmp_path_factory.mktemp("cut"))
            error = error_reply(503, "rate_limiter_unavailable")
            runner.run(_run(cut, {26: FakeApi(NOW, cut.clock.now, cut_at, 1, error)}))
            assert cut.model.scans.keys() == {cut_at}
    return made


@pytest.fixture
def prepare(_made: dict[Where | None, PreparedWarehouse], tmp_path: Path) -> Prepare:
    """Return a function that copies the warehouse as it is before a run with a fault."""

    return lambda moment: _copy(_made[moment.where if moment.resumed else None], tmp_path)
