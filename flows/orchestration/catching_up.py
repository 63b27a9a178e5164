"""Decides which runs to start after a time in which nothing ran: at most one run of each plan. No IO."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from operator import attrgetter
from uuid import UUID

from flows.orchestration.schedules import Plan


class Fate(Enum):
    """The end of a run that was due."""

    MISSED = auto()
    INTERRUPTED = auto()
    OVER = auto()


class Verdict(Enum):
    """What is done about it: run it now, schedule it again, or drop it."""

    RUN = auto()
    AGAIN = auto()
    DROP = auto()


@dataclass(frozen=True, slots=True)
class Due:
    """A run of a scheduled plan that was due before now."""

    plan: str
    run: UUID
    at: datetime
    fate: Fate


def _newest(due: Sequence[Due]) -> Mapping[str, Due]:
    return {each.plan: each for each in sorted(due, key=attrgetter("at"))}


def catch_up(due: Iterable[Due], plans: Iterable[Plan]) -> dict[UUID, Verdict]:
    """Decide about each run that needs it: the newest of a plan is made up for, unless another plan's covers it."""
    known = list(due)
    newest = _newest(known)
    wanting = {name for name, last in newest.items() if last.fate is not Fate.OVER}
    covered = {other for plan in plans if plan.name in wanting for other in plan.covers}
    verdicts = {each.run: Verdict.DROP for each in known if each.fate is Fate.MISSED}
    for name in wanting - covered:
        last = newest[name]
        verdicts[last.run] = Verdict.RUN if last.fate is Fate.MISSED else Verdict.AGAIN
    return verdicts
