"""What is asserted of the run of a fault, and of the one after it."""

from tests.clocks import START, VirtualClock
from tests.faults.cells import Cell
from tests.faults.faults import Ends
from tests.faults.model import Model
from tests.faults.player import Player
from tests.faults.syncing import MAX_BODY, Found, Outcome
from tests.faults.world import CATALOGUE, CYD, DAN, NOW, Where, listed, partitions, shown
from tests.flows.fake_api import CORRELATION_ID


def assert_fault_run(cell: Cell, found: Found, player: Player, model: Model, clock: VirtualClock) -> None:
    there, expected = found.outcomes[cell.moment.where], cell.expected
    # With more accounts missing than is believed at once, a run is partial.
    exit_code = expected.exit_code or (3 if model.accounts.missing else 0)
    assert (there.kind, found.exit_code) == (expected.outcome, exit_code)
    assert player.asked(cell.moment.where) == expected.asked
    assert player.taken <= cell.fault.taken
    _assert_told(cell, there, clock)
    # Nothing that landed is lost, and nothing else is there.
    found.assert_agrees(model)
    assert found.outcomes.keys() == _owed(model)
    if cell.ends in (Ends.RETRY, Ends.WAIT):
        assert sum(clock.slept) >= cell.fault.wait
        assert bool(clock.slept)
    for where, other in found.outcomes.items():
        if where != cell.moment.where:
            _assert_untroubled(cell, where, other)


def _owed(model: Model) -> set[Where]:
    return {CATALOGUE, *((one, surface) for one in model.listed for surface in ("posts", "stories"))}


def _assert_told(cell: Cell, there: Outcome, clock: VirtualClock) -> None:
    """The ledger keeps the error's code, its HTTP status and its correlation id."""
    fault = cell.fault
    if cell.passes:
        assert (there.code, there.status, there.trace, there.resume_after) == (None, None, None, None)
        return
    assert (there.code, there.status, there.trace) == (
        fault.code,
        fault.status,
        CORRELATION_ID if fault.traced else None,
    )
    if cell.ends is not Ends.DEFER:
        assert there.resume_after is None
        return
    assert there.resume_after is not None
    # Never less than was asked for, and little more.
    waits = there.resume_after - (START.timestamp() + clock.passed)
    assert fault.wait <= waits <= fault.wait * 1.1 + 1


def _assert_untroubled(cell: Cell, where: Where, other: Outcome) -> None:
    """A fault is its own partition's trouble; only what stops the run may end others, and then by its own code."""
    if where[0] in (CYD, DAN):
        assert other.kind == "skipped"
    elif other.kind != "complete":
        assert cell.ends is Ends.STOP
        assert (other.kind, other.code) == (cell.fault.kind, cell.fault.code)
        assert where != CATALOGUE or cell.fault.code != "api_scope_denied"


def assert_quiet_run(found: Found, player: Player, model: Model, *, late: bool) -> None:
    """Complete and exact: the snapshot shows what the API shows, and no page was asked for twice.

    A scan begun too long ago is the exception: it is ended, and then scanned again.
    """
    assert (found.exit_code, found.report.state.value) == (0, "complete")
    found.assert_agrees(model)
    assert found.outcomes.keys() == partitions()
    kinds = {where: outcome.kind for where, outcome in found.outcomes.items()}
    assert kinds == {where: "skipped" if where[0] == CYD else "complete" for where in partitions()}
    assert {key: item for key, item in found.media.items() if key not in found.gone} == shown(NOW)
    named = {one: (item["ig_username"], item["status"]) for one, item in listed(NOW).items()}
    assert {one: named_so for one, named_so in found.accounts.items() if one not in found.unlisted} == named
    assert late or player.no_page_twice()
    assert player.taken < MAX_BODY
