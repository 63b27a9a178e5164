"""The matrix over real sockets, for faults that need them."""

import asyncio

import pytest

from connectors.source.client import Timeouts
from tests.faults.assertions import assert_fault_run, assert_quiet_run
from tests.faults.conftest import Prepare, PreparedWarehouse
from tests.faults.fake_api import FakeApi
from tests.faults.matrix import (
    COVERING_SOCKET_COUNT,
    SOCKET_CELL_COUNT,
    SOCKET_FAULT_COUNT,
    Cell,
    cells,
)
from tests.faults.runs import HOUR, ApiConnection, open_test_warehouse, sync
from tests.faults.sockets import SOCKET_FAULTS, served
from tests.faults.world import NOW

LONG_TIMEOUTS = Timeouts(connect=60.0, read=60.0, total=60.0)
# Long enough for every reply that is sent without delay.
SHORT_TIMEOUTS = Timeouts(connect=60.0, read=1.5, total=1.5)

# tests/source tests these with the client every time; each of the others has one cell that runs every time.
LONG_ONLY = {"closed in the head", "no HTTP", "two lengths", "cut chunks", "reset in the body", "no length"}
COVERING = {
    str(found[3 * number % len(found)])
    for number, fault in enumerate(fault for fault in SOCKET_FAULTS if fault.name not in LONG_ONLY)
    for found in [list(cells([fault]))]
}


def _marks(cell: Cell) -> list[pytest.MarkDecorator]:
    return [] if str(cell) in COVERING else [pytest.mark.long]


CELLS = [pytest.param(cell, id=str(cell), marks=_marks(cell)) for cell in cells(SOCKET_FAULTS)]


async def _run_cell(cell: Cell, ready: PreparedWarehouse) -> None:
    clock, moment = ready.clock, cell.moment
    api = FakeApi(NOW, clock.now, moment.where, moment.index, cell.fault.serve, times=1 if cell.once else None)
    async with open_test_warehouse(ready.folder) as warehouse:
        async with served(api) as url:
            line = ApiConnection(url=url, timeouts=SHORT_TIMEOUTS if cell.fault.timed else LONG_TIMEOUTS)
            found = await sync(warehouse, ready.folder, clock, line)
        ready.model.sync(api.served)
        assert_fault_run(cell, found, api, ready.model, clock)

        clock.passed += cell.fault.hours_later * HOUR
        quiet = FakeApi(NOW, clock.now)
        async with served(quiet) as url:
            found = await sync(warehouse, ready.folder, clock, ApiConnection(url=url, timeouts=LONG_TIMEOUTS))
        ready.model.sync(quiet.served)
        assert_quiet_run(found, quiet, ready.model, late=False)


@pytest.mark.parametrize("cell", CELLS)
def test_a_fault_on_a_socket_has_its_expected_effect_and_the_next_run_is_exact(cell: Cell, prepare: Prepare) -> None:
    asyncio.run(_run_cell(cell, prepare(cell.moment)))


def test_the_matrix_has_the_size_stated_in_the_docs() -> None:
    sizes = (len(SOCKET_FAULTS), len(CELLS), len(COVERING))
    assert sizes == (SOCKET_FAULT_COUNT, SOCKET_CELL_COUNT, COVERING_SOCKET_COUNT)
