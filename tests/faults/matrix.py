"""The matrix: every fault at every moment (a cell), with the expected result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product

from tests.faults.fake_api import cursor_to
from tests.faults.faults import FAULTS, Effect, Fault
from tests.faults.world import CATALOGUE, PAGES, POSTS, Where

# The numbers in docs/reliability.md; a test compares them with the matrix.
FAULT_COUNT = 81
MOMENT_COUNT = 8
CELL_COUNT = 916
COVERING_COUNT = 17

# Faults that are always among the covering cells.
_ALWAYS = ("rate_limited", "api_scope_denied", "silence", "1 GB of body", "a cycle of cursors")

Cursors = list[str | None]


@dataclass(frozen=True)
class Moment:
    """When a fault occurs: on page `index` of a partition; `resumed`: on the first page of a resumed scan."""

    name: str
    where: Where
    index: int
    resumed: bool = False

    @property
    def before(self) -> Cursors:
        """The cursors requested in that run before the fault."""
        return [] if self.resumed else [_cursor(index) for index in range(self.index)]


def _moments(of: str, where: Where) -> tuple[Moment, ...]:
    return (
        Moment(f"{of}, first page", where, 0),
        Moment(f"{of}, mid-scan", where, 1),
        Moment(f"{of}, last page", where, PAGES - 1),
        Moment(f"{of}, resumed", where, 1, resumed=True),
    )


MOMENTS = (*_moments("catalogue", CATALOGUE), *_moments("media", POSTS))


def _cursor(index: int, mark: str = "") -> str | None:
    return cursor_to(index, mark) if index or mark else None


@dataclass(frozen=True)
class Expected:
    """The expected result of a cell: the partition's outcome, the exit code, and the cursors requested."""

    outcome: str
    exit_code: int
    cursors: Cursors


@dataclass(frozen=True)
class Cell:
    """A fault at a moment, once or for the whole run."""

    fault: Fault
    moment: Moment
    once: bool = False

    def __str__(self) -> str:
        lasting = ", once" if self.once else ""
        return f"{self.fault.name}{lasting} | {self.moment.name}"

    @property
    def effect(self) -> Effect:
        return self.fault.effect

    @property
    def passes(self) -> bool:
        """Whether the scan is complete in the run with the fault."""
        may_pass = self.effect in (Effect.RETRY, Effect.WAIT) or (self.effect is Effect.RESTART and self._has_cursor)
        return self.effect is Effect.LAND or (may_pass and self.once)

    @property
    def _has_cursor(self) -> bool:
        return self.moment.index > 0

    @property
    def expected(self) -> Expected:
        if self.passes:
            return Expected("complete", 0, self._cursors())
        outcome = "deferred" if self.effect is Effect.DEFER else self.fault.kind
        return Expected(outcome, self._exit_code(), self._cursors())

    def _exit_code(self) -> int:
        """Return 1 if the run was stopped or nothing landed and nothing is deferred; 3 if the rest landed."""
        # A cursor loop is detected only after its first page has landed.
        nothing_listed = self.moment.where == CATALOGUE and self.moment.index == 0 and self.effect is not Effect.LOOP
        return 1 if self.effect is Effect.STOP or (nothing_listed and self.effect is not Effect.DEFER) else 3

    def _cursors(self) -> Cursors:
        before, index = self.moment.before, self.moment.index
        here, rest = _cursor(index), [_cursor(later) for later in range(index + 1, PAGES)]
        if self.effect is Effect.RESTART and self._has_cursor:
            anew = [_cursor(page) for page in range(PAGES if self.once else index + 1)]
            return [*before, here, *anew]
        if self.effect in (Effect.LAND, Effect.LOOP):
            marks = self.fault.first_marks if index == 0 and self.fault.first_marks else self.fault.marks
            return [*before, *[_cursor(index, mark) for mark in marks], *(rest if self.passes else [])]
        if self.passes:
            return [*before, here, here, *rest]
        return [*before, *[here] * self.fault.attempts]


def cells(faults: Sequence[Fault] = FAULTS) -> Iterator[Cell]:
    """Yield every fault at every moment; transient faults both once and for the whole run."""
    for fault, moment in product(faults, MOMENTS):
        there = fault.on(moment.where)
        if there.effect is not Effect.WAIT:
            yield Cell(there, moment)
        if there.effect in (Effect.RETRY, Effect.WAIT, Effect.RESTART):
            yield Cell(there, moment, once=True)


def aspects(cell: Cell) -> set[object]:
    """Return what a cell covers: its moment, and its effect with its list, with resumed or not, and once or not."""
    moment = cell.moment
    return {moment, (cell.effect, moment.where), (cell.effect, "resumed", moment.resumed), (cell.effect, cell.once)}


def covering(faults: Sequence[Fault] = FAULTS) -> list[Cell]:
    """Return few cells that cover all aspects. tests/source has the effects of all faults on a request."""
    # In the order of a hash: otherwise most would be on first pages, and one more fault would change the choice.
    every = sorted(cells(faults), key=lambda cell: sha256(str(cell).encode()).digest())
    chosen = [next(cell for cell in every if cell.fault.name == name) for name in _ALWAYS]
    missing = set[object]().union(*map(aspects, every)).difference(*map(aspects, chosen))
    while missing:
        chosen.append(max(every, key=lambda cell: len(aspects(cell) & missing)))
        missing -= aspects(chosen[-1])
    return chosen
