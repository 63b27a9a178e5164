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


async def _prepared(folder: Path, cut_at: Where | None) -> PreparedWarehouse:
    """Perform two runs without faults, and optionally another in which the second page of `cut_at` fails."""
    ready = PreparedWarehouse(folder, Model(), VirtualClock())
    now = ready.clock.now
    players = {0: FakeApi(BEFORE, now), 13: FakeApi(LEAVING, now)}
    if cut_at is not None:
        players[26] = FakeApi(NOW, now, cut_at, 1, error_reply(503, "rate_limiter_unavailable"))
    async with open_test_warehouse(folder) as warehouse:
        for hour, api in players.items():
            ready.clock.passed = hour * HOUR
            found = await sync(warehouse, folder, ready.clock, api)
            ready.model.sync(api.served)
            found.assert_agrees(ready.model)
    assert ready.model.scans.keys() == ({cut_at} if cut_at is not None else set())
    return ready


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> dict[Where | None, PreparedWarehouse]:
    made: dict[Where | None, PreparedWarehouse] = {}
    for cut_at in (None, CATALOGUE, POSTS):
        with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
            made[cut_at] = runner.run(_prepared(tmp_path_factory.mktemp("prepared"), cut_at))
    return made


@pytest.fixture
def prepare(_made: dict[Where | None, PreparedWarehouse], tmp_path: Path) -> Prepare:
    """Return a function that copies the warehouse as it is before a run with a fault."""

    def copied(moment: Moment) -> PreparedWarehouse:
        made = _made[moment.where if moment.resumed else None]
        shutil.copy(made.folder / "warehouse.duckdb", tmp_path)
        shutil.copytree(made.folder / "raw", tmp_path / "raw")
        clock = VirtualClock()
        clock.passed = 27 * HOUR
        return PreparedWarehouse(tmp_path, copy.deepcopy(made.model), clock)

    return copied
