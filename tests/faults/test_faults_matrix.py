"""Every fault at every moment: its effect on the run, and a complete and exact run after it."""

import asyncio

import pytest

from tests.clocks import AdvanceableLoop
from tests.faults.assertions import assert_fault_run, assert_quiet_run
from tests.faults.conftest import Prepare, PreparedWarehouse
from tests.faults.fake_api import FakeApi
from tests.faults.faults import FAULTS
from tests.faults.matrix import CELL_COUNT, COVERING_COUNT, FAULT_COUNT, MOMENT_COUNT, MOMENTS, Cell, cells, covering
from tests.faults.replies import Reply
from tests.faults.runs import HOUR, open_test_warehouse, sync
from tests.faults.world import NOW, Where

COVERING = {str(cell) for cell in covering()}
CELLS = [
    pytest.param(cell, id=str(cell), marks=() if str(cell) in COVERING else (pytest.mark.long,)) for cell in cells()
]


async def _run_cell(cell: Cell, ready: PreparedWarehouse) -> None:
    clock, began, moment = ready.clock, ready.clock.passed, cell.moment
    api = FakeApi(NOW, clock.now, moment.where, moment.index, cell.fault.serve, times=1 if cell.once else None)
    async with open_test_warehouse(ready.folder) as warehouse:
        found = await sync(warehouse, ready.folder, clock, api)
        ready.model.sync(api.served)
        assert_fault_run(cell, found, api, ready.model, clock)

        clock.passed = max(clock.passed, began) + cell.fault.hours_later * HOUR
        late = cell.fault.hours_later > 12
        quiet = FakeApi(NOW, clock.now)
        found = await sync(warehouse, ready.folder, clock, quiet)
        ready.model.sync(quiet.served, late=late)
        assert_quiet_run(found, quiet, ready.model, late=late)


@pytest.mark.parametrize("cell", CELLS)
def test_a_fault_has_its_expected_effect_and_the_next_run_is_exact(cell: Cell, prepare: Prepare) -> None:
    with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
        runner.run(_run_cell(cell, prepare(cell.moment)))


class _Gateway(FakeApi):
    """Two requests at once, and one each second, pass a gateway in front of the API; it refuses all others."""

    tokens, at = 2.0, 0.0
    refusal = Reply()

    def _reply(self, where: Where, cursor: str | None) -> Reply:
        now = self.now().timestamp()
        self.tokens, self.at = min(2.0, self.tokens + now - self.at), now
        if self.tokens < 1:
            return self.refusal
        self.tokens -= 1
        return super()._reply(where, cursor)


async def _run_behind_gateway(refusal: Reply, ready: PreparedWarehouse) -> None:
    api = _Gateway(NOW, ready.clock.now)
    api.refusal = refusal
    async with open_test_warehouse(ready.folder) as warehouse:
        found = await sync(warehouse, ready.folder, ready.clock, api)
    ready.model.sync(api.served)
    found.assert_agrees(ready.model)
    assert {outcome.kind for outcome in found.outcomes.values()} == {"complete", "skipped"}
    assert any(one.reply is refusal for one in api.served)


@pytest.mark.parametrize(("status", "wait"), [(429, None), (429, "3"), (503, "3")])
def test_a_limit_of_the_whole_key_delays_the_run_and_no_scan_fails(
    status: int, wait: str | None, prepare: Prepare
) -> None:
    refusal = Reply(status, b"<html>", {"retry-after": wait} if wait else {})
    with asyncio.Runner(loop_factory=AdvanceableLoop) as runner:
        runner.run(_run_behind_gateway(refusal, prepare(MOMENTS[0])))


def test_the_matrix_has_the_size_stated_in_the_docs() -> None:
    sizes = (len(FAULTS), len(MOMENTS), len(CELLS), len(COVERING))
    assert sizes == (FAULT_COUNT, MOMENT_COUNT, CELL_COUNT, COVERING_COUNT)
    assert len({str(cell) for cell in cells()}) == CELL_COUNT
