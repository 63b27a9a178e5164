"""Every fault at every moment: what becomes of it in that run, and that the next one is complete and exact."""

import asyncio

import pytest

from tests.clocks import Leaping
from tests.faults.cells import (
    CELL_COUNT,
    COVERING_COUNT,
    FAULT_COUNT,
    MOMENT_COUNT,
    MOMENTS,
    Cell,
    cells,
    covering,
    pairs,
)
from tests.faults.conftest import Prepare, Ready
from tests.faults.faults import FAULTS, NOT_ON_A_SOCKET, Ends
from tests.faults.judging import assert_fault_run, assert_quiet_run
from tests.faults.player import Player
from tests.faults.syncing import HOUR, Line, opened, sync
from tests.faults.world import NOW

COVERING = {str(cell) for cell in covering(NOT_ON_A_SOCKET)}
CELLS = [
    pytest.param(cell, id=str(cell), marks=() if str(cell) in COVERING else (pytest.mark.long,)) for cell in cells()
]


async def _through(cell: Cell, ready: Ready) -> None:
    clock, began, moment = ready.clock, ready.clock.passed, cell.moment
    player = Player(NOW, clock.now, moment.where, moment.index, cell.fault.serve, times=1 if cell.once else None)
    async with opened(ready.folder) as warehouse:
        found = await sync(warehouse, ready.folder, clock, Line(player))
        ready.model.sync(player.served)
        assert_fault_run(cell, found, player, ready.model, clock)

        clock.passed = max(clock.passed, began) + cell.fault.late * HOUR
        late = cell.fault.late > 12
        quiet = Player(NOW, clock.now)
        found = await sync(warehouse, ready.folder, clock, Line(quiet))
        ready.model.sync(quiet.served, late=late)
        assert_quiet_run(found, quiet, ready.model, late=late)


@pytest.mark.parametrize("cell", CELLS)
def test_a_fault_costs_what_it_must_and_the_next_run_is_exact(cell: Cell, prepare: Prepare) -> None:
    with asyncio.Runner(loop_factory=Leaping) as runner:
        runner.run(_through(cell, prepare(cell.moment)))


def test_the_matrix_is_as_large_as_the_documents_say() -> None:
    message = (len(FAULTS), len(MOMENTS), len(CELLS), len(COVERING))
    assert message == (FAULT_COUNT, MOMENT_COUNT, CELL_COUNT, COVERING_COUNT)
    assert len({str(cell) for cell in cells()}) == CELL_COUNT


def test_the_covering_cells_leave_no_fault_and_no_moment_out() -> None:
    chosen = covering(NOT_ON_A_SOCKET)
    assert {cell.fault.name for cell in chosen} == {fault.name for fault in NOT_ON_A_SOCKET}
    assert {cell.moment for cell in chosen} == set(MOMENTS)
    assert len(set[object]().union(*map(pairs, chosen))) == len(Ends) * 4
    assert {cell.once for cell in chosen if cell.ends is Ends.RETRY} == {True, False}
