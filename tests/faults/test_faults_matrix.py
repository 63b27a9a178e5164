"""Every fault at every moment: its effect on the run, and a complete and exact run after it."""

import asyncio

import pytest

from tests.clocks import AdvanceableLoop
from tests.faults.assertions import assert_fault_run, assert_quiet_run
from tests.faults.conftest import Prepare, PreparedWarehouse
from tests.faults.fake_api import FakeApi
from tests.faults.faults import FAULTS, NOT_ON_A_SOCKET, Effect
from tests.faults.matrix import (
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
from tests.faults.runs import HOUR, ApiConnection, open_test_warehouse, sync
from tests.faults.world import NOW

COVERING = {str(cell) for cell in covering(NOT_ON_A_SOCKET)}
CELLS = [
    pytest.param(cell, id=str(cell), marks=() if str(cell) in COVERING else (pytest.mark.long,)) for cell in cells()
]


async def _run_cell(cell: Cell, ready: PreparedWarehouse) -> None:
    clock, began, moment = ready.clock, ready.clock.passed, cell.moment
    api = FakeApi(NOW, clock.now, moment.where, moment.index, cell.fault.serve, times=1 if cell.once else None)
    async with open_test_warehouse(ready.folder) as warehouse:
        found = await sync(warehouse, ready.folder, clock, ApiConnection(api))
        ready.model.sync(api.served)
        assert_fault_run(cell, found, api, ready.model, clock)

        clock.passed = max(clock.passed, began) + cell.fault.hours_later * HOUR
        late = cell.fault.hours_later > 12
        quiet = FakeApi(NOW, clock.now)
        found = await sync(warehouse, ready.folder, clock, ApiConnection(quiet))
        ready.model.sync(quiet.served, late=late)
        assert_quiet_run(found, quiet, ready.model, late=late)


@pytest.mark.parametrize("cell", CELLS)
def test_a_fault_has_its_expected_effect_and_the_next_run_is_exact(cell: Cell, prepare: Prepare) -> None:
    with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
        runner.run(_run_cell(cell, prepare(cell.moment)))


def test_the_matrix_has_the_size_stated_in_the_docs() -> None:
    sizes = (len(FAULTS), len(MOMENTS), len(CELLS), len(COVERING))
    assert sizes == (FAULT_COUNT, MOMENT_COUNT, CELL_COUNT, COVERING_COUNT)
    assert len({str(cell) for cell in cells()}) == CELL_COUNT


def test_the_covering_cells_include_every_fault_and_every_moment() -> None:
    chosen = covering(NOT_ON_A_SOCKET)
    assert {cell.fault.name for cell in chosen} == {fault.name for fault in NOT_ON_A_SOCKET}
    assert {cell.moment for cell in chosen} == set(MOMENTS)
    assert len(set[object]().union(*map(pairs, chosen))) == len(Effect) * 4
    assert {cell.once for cell in chosen if cell.effect is Effect.RETRY} == {True, False}
