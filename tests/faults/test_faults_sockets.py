"""The same over real sockets: what only they can show, at every moment."""

import asyncio

import pytest

from connectors.source.client import Timeouts
from tests.faults.cells import (
    COVERING_SOCKET_COUNT,
    SOCKET_CELL_COUNT,
    SOCKET_FAULT_COUNT,
    Cell,
    cells,
    covering,
)
from tests.faults.conftest import Prepare, Ready
from tests.faults.judging import assert_fault_run, assert_quiet_run
from tests.faults.player import Player
from tests.faults.sockets import SOCKET_FAULTS, served
from tests.faults.syncing import HOUR, Line, opened, sync
from tests.faults.world import NOW

PATIENT = Timeouts(connect=60.0, read=60.0, total=60.0)
# Long enough for whatever answers at all.
HASTY = Timeouts(connect=60.0, read=1.5, total=1.5)

# tests/source shows the client these every time; the rest have one cell each every time, too.
LONG_ONLY = {"closed in the head", "no HTTP", "two lengths", "cut chunks", "reset in the body", "no length"}
COVERING = {str(cell) for cell in covering(tuple(fault for fault in SOCKET_FAULTS if fault.name not in LONG_ONLY))[:11]}


def _marks(cell: Cell) -> list[pytest.MarkDecorator]:
    return [] if str(cell) in COVERING else [pytest.mark.long]


CELLS = [pytest.param(cell, id=str(cell), marks=_marks(cell)) for cell in cells(SOCKET_FAULTS)]


async def _through(cell: Cell, ready: Ready) -> None:
    clock, moment = ready.clock, cell.moment
    player = Player(NOW, clock.now, moment.where, moment.index, cell.fault.serve, times=1 if cell.once else None)
    async with opened(ready.folder) as warehouse:
        async with served(player) as url:
            line = Line(url=url, timeouts=HASTY if cell.fault.timed else PATIENT)
            found = await sync(warehouse, ready.folder, clock, line)
        ready.model.sync(player.served)
        assert_fault_run(cell, found, player, ready.model, clock)

        clock.passed += cell.fault.late * HOUR
        quiet = Player(NOW, clock.now)
        async with served(quiet) as url:
            found = await sync(warehouse, ready.folder, clock, Line(url=url, timeouts=PATIENT))
        ready.model.sync(quiet.served)
        assert_quiet_run(found, quiet, ready.model, late=False)


@pytest.mark.parametrize("cell", CELLS)
def test_a_fault_on_the_wire_costs_what_it_must_and_the_next_run_is_exact(cell: Cell, prepare: Prepare) -> None:
    asyncio.run(_through(cell, prepare(cell.moment)))


def test_there_are_as_many_as_the_documents_say() -> None:
    message = (len(SOCKET_FAULTS), len(CELLS), len(COVERING))
    assert message == (SOCKET_FAULT_COUNT, SOCKET_CELL_COUNT, COVERING_SOCKET_COUNT)
