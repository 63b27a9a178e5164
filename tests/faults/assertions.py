"""Assertions about the run with a fault and the run after it."""

from tests.clocks import START, VirtualClock
from tests.faults.fake_api import FakeApi
from tests.faults.faults import Effect
from tests.faults.matrix import Cell
from tests.faults.model import Model
from tests.faults.runs import MAX_BODY, Outcome, RunResult
from tests.faults.world import CATALOGUE, CYD, DAN, NOW, Where, listed_accounts, listed_media, partitions


def assert_fault_run(cell: Cell, found: RunResult, api: FakeApi, model: Model, clock: VirtualClock) -> None:
    there, expected = found.outcomes[cell.moment.where], cell.expected
    # If too many accounts are missing, they are not removed yet, and the run is partial.
    exit_code = expected.exit_code or (3 if model.accounts.lacks_many else 0)
    assert (there.kind, found.exit_code) == (expected.outcome, exit_code)
    assert api.requested_cursors(cell.moment.where) == expected.cursors
    assert api.bytes_read <= cell.fault.bytes_read
    _assert_outcome_details(cell, there, clock)
    # The snapshot has exactly what landed.
    found.assert_agrees(model)
    assert found.outcomes.keys() == _owed(model)
    if cell.effect in (Effect.RETRY, Effect.WAIT):
        assert sum(clock.slept) >= cell.fault.wait
        assert bool(clock.slept)
    for where, other in found.outcomes.items():
        if where != cell.moment.where:
            _assert_unaffected(cell, where, other)


def _owed(model: Model) -> set[Where]:
    return {CATALOGUE, *((one, surface) for one in model.listed for surface in ("posts", "stories"))}


def _assert_outcome_details(cell: Cell, there: Outcome, clock: VirtualClock) -> None:
    """Assert that the ledger has the error's code, HTTP status and correlation id."""
    fault = cell.fault
    if cell.passes:
        assert (there.code, there.status, there.trace, there.resume_after) == (None, None, None, None)
        return
    assert (there.code, there.status, there.trace is not None) == (fault.code, fault.status, fault.traced)
    if cell.effect is not Effect.DEFER:
        assert there.resume_after is None
        return
    assert there.resume_after is not None
    # Never less than required, and only a little more.
    waits = there.resume_after - (START.timestamp() + clock.passed)
    assert fault.wait <= waits <= fault.wait * 1.1 + 1


def _assert_unaffected(cell: Cell, where: Where, other: Outcome) -> None:
    """Assert that other partitions are not affected, unless the fault stops the run; then they have its code."""
    if where[0] in (CYD, DAN):
        assert other.kind == "skipped"
    elif other.kind != "complete":
        assert cell.effect is Effect.STOP
        assert (other.kind, other.code) == (cell.fault.kind, cell.fault.code)
        assert where != CATALOGUE or cell.fault.code != "api_scope_denied"


def assert_quiet_run(found: RunResult, api: FakeApi, model: Model, *, late: bool) -> None:
    """Assert that the run is complete, the snapshot equals the API, and no page was requested twice.

    With `late`, pages may be requested twice: a scan that began too long ago is finished and then repeated.
    """
    assert (found.exit_code, found.report.state.value) == (0, "complete")
    found.assert_agrees(model)
    assert found.outcomes.keys() == partitions()
    kinds = {where: outcome.kind for where, outcome in found.outcomes.items()}
    assert kinds == {where: "skipped" if where[0] == CYD else "complete" for where in partitions()}
    assert {key: item for key, item in found.media.items() if key not in found.gone} == listed_media(NOW)
    named = {one: (item["ig_username"], item["status"]) for one, item in listed_accounts(NOW).items()}
    assert {one: named_so for one, named_so in found.accounts.items() if one not in found.unlisted} == named
    assert late or api.no_page_twice()
    assert api.bytes_read < MAX_BODY
