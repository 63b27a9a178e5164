"""Where a process may die: at a step of its loop, before a statement, before or after a commit.

What lands is committed by writing it: before that is in the midst of it.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pytest
from duckdb_sqlalchemy import Dialect
from sqlalchemy import event
from sqlalchemy.engine import Engine

from connectors.warehouse.ingest.landing import segments
from connectors.warehouse.ingest.landing.page_commit import Record
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.storage import connection as connecting
from connectors.warehouse.storage.connection import raw_connection
from tests.simulation.disk import torn_by
from tests.simulation.loop import Killed

Where = Literal["step", "statement", "before commit", "after commit"]


@dataclass(frozen=True, slots=True)
class Crash:
    """The process dies at the nth of these, counted from 1."""

    where: Where
    nth: int


class Dice:
    """Counts what a process does, and kills it when its time has come. `on_death` sees the files as they are then."""

    def __init__(self, crash: Crash | None, on_death: Callable[[], None]) -> None:
        self.crash = crash
        self.counts: dict[str, int] = {"statement": 0, "before commit": 0, "after commit": 0}
        self.on_death = on_death
        self.dead = False

    def pass_(self, where: Where) -> None:
        """Pass a place where the process may die."""
        if self.dead:
            return
        self.counts[where] += 1
        if self.crash == Crash(where, self.counts[where]):
            self.die()

    def die(self) -> None:
        """Die here."""
        self.dead = True
        self.on_death()
        raise Killed


class _Watched:
    """DuckDB's own connection, of which every statement is a place to die."""

    def __init__(self, db: duckdb.DuckDBPyConnection, dice: Dice) -> None:
        self._db = db
        self._dice = dice

    def execute(self, *statement: Any) -> Any:  # noqa: ANN401 - whatever DuckDB takes and gives
        self._dice.pass_("statement")
        return self._db.execute(*statement)

    def commit(self) -> None:
        self._dice.pass_("before commit")
        self._db.commit()
        self._dice.pass_("after commit")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else it has
        return getattr(self._db, name)


@contextmanager
def watched(dice: Dice, landed: Callable[[], None]) -> Iterator[None]:
    """Let every statement and commit of the writer pass the dice; `landed` is told whenever something is durable."""

    def before(*_: object) -> None:
        dice.pass_("statement")

    do_commit = Dialect.do_commit

    def commit(self: Dialect, connection: object) -> None:
        dice.pass_("before commit")
        do_commit(self, connection)  # type: ignore[no-untyped-call]
        dice.pass_("after commit")

    real_append = Segments.append

    def append(self: Segments, records: Sequence[Record]) -> None:
        real_append(self, records)
        landed()
        dice.pass_("after commit")

    with pytest.MonkeyPatch.context() as inner:
        inner.setattr(Dialect, "do_commit", commit)
        inner.setattr(segments, "write", torn_by(lambda: dice.pass_("before commit")))
        inner.setattr(Segments, "append", append)
        for name, module in list(sys.modules.items()):
            if (
                name.startswith("connectors.warehouse.")
                and module is not connecting
                and hasattr(module, "raw_connection")
            ):
                inner.setattr(module, "raw_connection", lambda connection: _Watched(raw_connection(connection), dice))
        event.listen(Engine, "before_cursor_execute", before)
        try:
            yield
        finally:
            event.remove(Engine, "before_cursor_execute", before)
