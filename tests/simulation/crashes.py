"""The points where a process can be killed: a step of its loop, before a statement, before or after a commit.

For a landing, which is committed by writing it to a segment, "before commit" is in the middle of the write.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pytest

from connectors.warehouse.ingest.landing import segments
from connectors.warehouse.ingest.landing.page_commit import Record
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.storage.connection import Connection
from tests.simulation.disk import torn_write
from tests.simulation.loop import Killed

Where = Literal["step", "statement", "before commit", "after commit"]


@dataclass(frozen=True, slots=True)
class Crash:
    """The process is killed when it reaches the nth point of this kind, counted from 1."""

    where: Where
    nth: int


class CrashTrigger:
    """Counts the points that a process reaches and kills it at `crash`; `on_death` is called at that moment."""

    def __init__(self, crash: Crash | None, on_death: Callable[[], None]) -> None:
        self.crash = crash
        self.counts: dict[str, int] = {"statement": 0, "before commit": 0, "after commit": 0}
        self.on_death = on_death
        self.dead = False

    def reach(self, where: Where) -> None:
        """Kill the process if this is the point of its crash."""
        if self.dead:
            return
        self.counts[where] += 1
        if self.crash == Crash(where, self.counts[where]):
            self.die()

    def die(self) -> None:
        """Kill the process."""
        self.dead = True
        self.on_death()
        raise Killed


class _CrashableConnection:
    """A DuckDB connection on which every statement and commit is a crash point."""

    def __init__(self, db: duckdb.DuckDBPyConnection, trigger: CrashTrigger) -> None:
        self._db = db
        self._trigger = trigger

    def execute(self, *statement: Any) -> Any:  # noqa: ANN401 - the same as DuckDB's
        self._trigger.reach("statement")
        return self._db.execute(*statement)

    def commit(self) -> None:
        self._trigger.reach("before commit")
        self._db.commit()
        self._trigger.reach("after commit")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(self._db, name)


@contextmanager
def crash_points(trigger: CrashTrigger, landed: Callable[[], None]) -> Iterator[None]:
    """Make every statement and commit of the writer a crash point; call `landed` after each durable write."""

    real_append = Segments.append

    def append(self: Segments, records: Sequence[Record]) -> None:
        real_append(self, records)
        landed()
        trigger.reach("after commit")

    with pytest.MonkeyPatch.context() as inner:
        inner.setattr(segments, "write", torn_write(lambda: trigger.reach("before commit")))
        inner.setattr(Segments, "append", append)
        real = Connection.__dict__["db"]
        wrapped = property(lambda self: _CrashableConnection(real.__get__(self), trigger), real.__set__)
        inner.setattr(Connection, "db", wrapped)
        yield
