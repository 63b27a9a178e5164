"""The points where a process can be killed or its disk full: a step of its loop, a statement, a commit.

For a landing, which is committed by writing it to a segment, "before commit" is in the middle of the write.
"""

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pytest

from connectors.warehouse.ingest.landing import segments
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.storage.connection import Connection
from models.page_commit import PageCommit
from tests.simulation.disk import torn_write
from tests.simulation.loop import Killed

Where = Literal["step", "statement", "before commit", "after commit"]

# These statements write nothing, so a full disk cannot make them fail.
_HARMLESS = ("USE ", "DETACH ")


@dataclass(frozen=True, slots=True)
class Crash:
    """The process reaches the nth point of this kind, counted from 1, and is killed (`dies`), or its disk is full."""

    where: Where
    nth: int
    dies: bool = True


class CrashTrigger:
    """Counts the points that a process reaches, and triggers `crash` once; `on_death` is called on the killed thread.

    `lock` is held for each statement, so that no other thread writes while `on_death` copies the files: files copied
    during a checkpoint of DuckDB would not be those that a killed process leaves.
    """

    def __init__(self, crash: Crash | None, on_death: Callable[[], None]) -> None:
        self._crash = crash
        self._left = crash.nth if crash else 0
        self._on_death = on_death
        self.lock = threading.RLock()
        self.dead = False

    def reach(self, where: Where, statement: str = "") -> None:
        """Kill the process or fail if this is the point of its crash."""
        if self._crash is None or where != self._crash.where or not self._left:
            return
        if not self._crash.dies and statement.startswith(_HARMLESS):
            return
        self._left -= 1
        if self._left:
            return
        if self._crash.dies:
            self.dead = True
            self._on_death()
            raise Killed
        message = "IO Error: No space left on device"
        raise duckdb.IOException(message)

    def reach_in_write(self) -> None:
        """Reach the point in the middle of a write to a file."""
        try:
            self.reach("before commit")
        except duckdb.Error as error:
            raise OSError(errno.ENOSPC, "No space left on device") from error


class _CrashableConnection:
    """A DuckDB connection on which every statement and commit is a crash point."""

    def __init__(self, db: duckdb.DuckDBPyConnection, trigger: CrashTrigger) -> None:
        self._db = db
        self._trigger = trigger

    def execute(self, statement: str, *parameters: Any) -> Any:  # noqa: ANN401 - the same as DuckDB's
        with self._trigger.lock:
            self._trigger.reach("statement", statement)
            return self._db.execute(statement, *parameters)

    def commit(self) -> None:
        with self._trigger.lock:
            try:
                self._trigger.reach("before commit")
            except duckdb.Error:
                # DuckDB rolls back a transaction that it cannot commit.
                self._db.rollback()
                raise
            self._db.commit()
            self._trigger.reach("after commit")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(self._db, name)


@contextmanager
def crash_points(
    trigger: CrashTrigger, landed: Callable[[Sequence[PageCommit]], None] = lambda _: None
) -> Iterator[None]:
    """Make every statement and commit of the writer a crash point; call `landed` with what is durable."""
    real_append = Segments.append

    def append(self: Segments, commits: Sequence[PageCommit]) -> int:
        with trigger.lock:
            after = real_append(self, commits)
            landed(commits)
            trigger.reach("after commit")
            return after

    with pytest.MonkeyPatch.context() as inner:
        inner.setattr(segments, "write", torn_write(trigger.reach_in_write))
        inner.setattr(Segments, "append", append)
        real = Connection.__dict__["db"]
        wrapped = property(lambda self: _CrashableConnection(real.__get__(self), trigger), real.__set__)
        inner.setattr(Connection, "db", wrapped)
        yield
