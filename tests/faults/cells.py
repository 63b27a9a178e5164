"""The moments, and the product of faults and moments: every cell, and what must come of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from tests.faults.faults import FAULTS, Ends, Fault
from tests.faults.player import cursor_to
from tests.faults.world import CATALOGUE, PAGES, POSTS, Where

# What docs/reliability.md says; a test holds them to the tables.
FAULT_COUNT = 78
MOMENT_COUNT = 8
CELL_COUNT = 844
COVERING_COUNT = 72
SOCKET_FAULT_COUNT = 17
SOCKET_CELL_COUNT = 216
COVERING_SOCKET_COUNT = 11

Cursors = list[str | None]


@dataclass(frozen=True)
class Moment:
    """Where a fault strikes: on page `index` of a partition; `resumed`: on the first that a later run asks for."""

    name: str
    where: Where
    index: int
    resumed: bool = False

    @property
    def before(self) -> Cursors:
        """What is asked for in that run before it."""
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
    """What must come of a cell: the outcome of the partition, the exit code, and every request for its pages."""

    outcome: str
    exit_code: int
    asked: Cursors


@dataclass(frozen=True)
class Cell:
    """A fault at a moment, once or in the whole run."""

    fault: Fault
    moment: Moment
    once: bool = False

    def __str__(self) -> str:
        lasting = ", once" if self.once else ""
        return f"{self.fault.name}{lasting} | {self.moment.name}"

    @property
    def ends(self) -> Ends:
        return self.fault.ends

    @property
    def passes(self) -> bool:
        """Whether the scan comes to its end in that very run."""
        may_pass = self.ends in (Ends.RETRY, Ends.WAIT) or (self.ends is Ends.RESTART and self._has_cursor)
        return self.ends is Ends.LAND or (may_pass and self.once)

    @property
    def _has_cursor(self) -> bool:
        return self.moment.index > 0

    @property
    def expected(self) -> Expected:
        if self.passes:
            return Expected("complete", 0, self._asked())
        outcome = "deferred" if self.ends is Ends.DEFER else self.fault.kind
        return Expected(outcome, self._exit_code(), self._asked())

    def _exit_code(self) -> int:
        """1: the run was stopped, or nothing in it went well and nothing waits; 3: the rest landed."""
        # A loop shows itself only once its first page has landed.
        nothing_listed = self.moment.where == CATALOGUE and self.moment.index == 0 and self.ends is not Ends.LOOP
        return 1 if self.ends is Ends.STOP or (nothing_listed and self.ends is not Ends.DEFER) else 3

    def _asked(self) -> Cursors:
        before, index = self.moment.before, self.moment.index
        here, rest = _cursor(index), [_cursor(later) for later in range(index + 1, PAGES)]
        if self.ends is Ends.RESTART and self._has_cursor:
            anew = [_cursor(page) for page in range(PAGES if self.once else index + 1)]
            return [*before, here, *anew]
        if self.ends in (Ends.LAND, Ends.LOOP):
            marks = self.fault.first_marks if index == 0 and self.fault.first_marks else self.fault.marks
            return [*before, *[_cursor(index, mark) for mark in marks], *(rest if self.passes else [])]
        if self.passes:
            return [*before, here, here, *rest]
        return [*before, *[here] * self.fault.asks]


def cells(faults: Sequence[Fault] = FAULTS) -> Iterator[Cell]:
    """Every fault at every moment; those that may pass by themselves both once and in the whole run."""
    for fault, moment in product(faults, MOMENTS):
        there = fault.on(moment.where)
        if there.ends is not Ends.WAIT and not there.timed:
            yield Cell(there, moment)
        if there.ends in (Ends.RETRY, Ends.WAIT, Ends.RESTART):
            yield Cell(there, moment, once=True)


def pairs(cell: Cell) -> set[tuple[Ends, object]]:
    """What a cell shows of its way to end: in which list, and whether in a scan resumed again."""
    return {(cell.ends, cell.moment.where), (cell.ends, cell.moment.resumed)}


def covering(faults: Sequence[Fault] = FAULTS) -> list[Cell]:
    """Few cells in which every fault strikes, all moments are met, and every way to end is paired with both lists."""
    chosen: list[Cell] = []
    turn: Counter[tuple[Ends, bool]] = Counter()
    for number, fault in enumerate(faults):
        of_it = list(cells([fault]))
        once = number % 2 == 0
        lasting = [cell for cell in of_it if cell.once == once] or of_it
        way = (fault.ends, lasting[0].once)
        chosen.append(lasting[turn[way] * 3 % len(lasting)])
        turn[way] += 1
    met = set[tuple[Ends, object]]().union(*map(pairs, chosen))
    for cell in cells(faults):
        if not pairs(cell) <= met:
            met |= pairs(cell)
            chosen.append(cell)
    return chosen
