"""Injects a fault: at the nth statement or commit the disk is full, or the process is killed.

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
from connectors.warehouse.ingest.landing.page_commit import Record
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.storage.connection import Connection
from tests.simulation.disk import torn_write
from tests.simulation.loop import Killed

Where = Literal["statement", "before commit", "after commit"]

# These statements write nothing, so a full disk cannot make them fail.
_HARMLESS = ("USE ", "DETACH ")


@dataclass(frozen=True)
class InjectedFault:
    """At the nth point of this kind, counted from 1, the process is killed (`dies`) or the disk is full."""

    where: Where
    nth: int
    dies: bool


class FaultInjector:
    """Counts statements and commits, and triggers the fault. `on_death` is called on the thread that is killed.

    `lock` is held for each statement, so that no other thread writes while `on_death` copies the files: files copied
    during a checkpoint of DuckDB would not be those that a killed process leaves.
    """

    def __init__(self, fault: InjectedFault, on_death: Callable[[], None]) -> None:
        self._fault = fault
        self._left = fault.nth
        self._on_death = on_death
        self.lock = threading.RLock()

    @property
    def triggered(self) -> bool:
        """Whether the fault has happened."""
        return self._left == 0

    def reach(self, where: Where, statement: str = "") -> None:
        """Trigger the fault if this is its point; it happens once."""
        harmless = not self._fault.dies and statement.startswith(_HARMLESS)
        if where != self._fault.where or self.triggered or harmless:
            return
        self._left -= 1
        if not self.triggered:
            return
        if self._fault.dies:
            self._on_death()
            raise Killed
        message = "IO Error: No space left on device"
        raise duckdb.IOException(message)


class _FaultyConnection:
    """A DuckDB connection whose statements and commits can fail."""

    def __init__(self, db: duckdb.DuckDBPyConnection, injector: FaultInjector) -> None:
        self._db = db
        self._injector = injector

    def execute(self, statement: str, *parameters: Any) -> Any:  # noqa: ANN401 - the same as DuckDB's
        with self._injector.lock:
            self._injector.reach("statement", statement)
            return self._db.execute(statement, *parameters)

    def commit(self) -> None:
        with self._injector.lock:
            try:
                self._injector.reach("before commit")
            except duckdb.Error:
                # DuckDB rolls back a transaction that it cannot commit.
                self._db.rollback()
                raise
            self._db.commit()
            self._injector.reach("after commit")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        return getattr(self._db, name)


def _writing(injector: FaultInjector) -> Callable[[int, bytes], None]:
    def between() -> None:
        try:
            injector.reach("before commit")
        except duckdb.Error as error:
            raise OSError(errno.ENOSPC, "No space left on device") from error

    return torn_write(between)


def _appending(injector: FaultInjector) -> Callable[[Segments, Sequence[Record]], None]:
    real = Segments.append

    def append(self: Segments, records: Sequence[Record]) -> None:
        with injector.lock:
            real(self, records)
            injector.reach("after commit")

    return append


@contextmanager
def injecting(injector: FaultInjector) -> Iterator[None]:
    """Make every statement and commit of the writer a point where the fault may happen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "write", _writing(injector))
        patch.setattr(Segments, "append", _appending(injector))
        real = Connection.__dict__["db"]
        wrapped = property(lambda self: _FaultyConnection(real.__get__(self), injector), real.__set__)
        patch.setattr(Connection, "db", wrapped)
        yield
