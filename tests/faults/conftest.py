# ruff: noqa: E402 - pytest explains only the asserts of modules it knew of before they were imported
import asyncio
import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.faults.judging", "tests.faults.model", "tests.faults.syncing")

from tests.clocks import Leaping, VirtualClock
from tests.faults.cells import Moment
from tests.faults.model import Model
from tests.faults.player import Player
from tests.faults.spoiling import refused_late
from tests.faults.syncing import HOUR, Line, opened, sync
from tests.faults.world import BEFORE, CATALOGUE, NOW, POSTS, Where


@dataclass(frozen=True)
class Ready:
    """A warehouse with runs behind it, what it holds, and the hour it is."""

    folder: Path
    model: Model
    clock: VirtualClock


Prepare = Callable[[Moment], Ready]


async def _prepared(folder: Path, cut_at: Where | None) -> Ready:
    """A quiet run, and one more in which the second page of `cut_at` does not come."""
    ready = Ready(folder, Model(), VirtualClock())
    players = [Player(BEFORE, ready.clock.now)]
    if cut_at is not None:
        players.append(Player(NOW, ready.clock.now, cut_at, 1, refused_late(503, "rate_limiter_unavailable")))
    async with opened(folder) as warehouse:
        for hour, player in enumerate(players):
            ready.clock.passed = hour * HOUR
            found = await sync(warehouse, folder, ready.clock, Line(player))
            ready.model.sync(player.served)
            found.assert_agrees(ready.model)
    assert ready.model.scans.keys() == ({cut_at} if cut_at is not None else set())
    return ready


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> dict[Where | None, Ready]:
    made: dict[Where | None, Ready] = {}
    for cut_at in (None, CATALOGUE, POSTS):
        with asyncio.Runner(loop_factory=Leaping) as runner:
            made[cut_at] = runner.run(_prepared(tmp_path_factory.mktemp("prepared"), cut_at))
    return made


@pytest.fixture
def prepare(_made: dict[Where | None, Ready], tmp_path: Path) -> Prepare:
    """A copy of the warehouse as it is before the run of a fault."""

    def copied(moment: Moment) -> Ready:
        made = _made[moment.where if moment.resumed else None]
        shutil.copy(made.folder / "warehouse.duckdb", tmp_path)
        shutil.copytree(made.folder / "raw", tmp_path / "raw")
        clock = VirtualClock()
        clock.passed = 2 * HOUR
        return Ready(tmp_path, copy.deepcopy(made.model), clock)

    return copied
