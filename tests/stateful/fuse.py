"""What breaks in the midst of work: the nth statement or commit fails, or the process dies of it.

What lands is committed by writing it: before that is in the midst of it.
"""

import errno
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import pytest
from duckdb_sqlalchemy import Dialect

from connectors.warehouse.ingest.landing import segments
from connectors.warehouse.ingest.landing.page_commit import Record
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.storage import connection as connecting
from connectors.warehouse.storage.connection import raw_connection
from tests.simulation.disk import torn_write
from tests.simulation.loop import Killed

Where = Literal["statement", "before commit", "after commit"]

# They write nothing, so that no full disk makes them fail.
_HARMLESS = ("USE ", "DETACH ")


@dataclass(frozen=True)
class FailureGroup:
    """At the nth of these, counted from 1, the process dies, or DuckDB finds the disk full."""

    where: Where
    nth: int
    dies: bool


class Fuse:
    """Counts what is done, and breaks it off. `on_death` is called at the very instant, on the thread that dies.

    Meanwhile no other thread may write: `alone` is held for each statement, for files that are copied while DuckDB
    writes a checkpoint into them are not what a killed process leaves.
    """

    def __init__(self, trouble: FailureGroup, on_death: Callable[[], None]) -> None:
        self._trouble = trouble
        self._left = trouble.nth
        self._on_death = on_death
        self.alone = threading.RLock()

    @property
    def blown(self) -> bool:
        """Whether it has broken something off."""
        return self._left == 0

    def pass_(self, where: Where, statement: str = "") -> None:
        """Pass a place where work may break off; it does so once."""
        harmless = not self._trouble.dies and statement.startswith(_HARMLESS)
        if where != self._trouble.where or self.blown or harmless:
            return
        self._left -= 1
        if not self.blown:
            return
        if self._trouble.dies:
            self._on_death()
            raise Killed
        message = "IO Error: No space left on device"
        raise duckdb.IOException(message)


class _Watched:
    """DuckDB's own connection, of which every statement passes the fuse."""

    def __init__(self, db: duckdb.DuckDBPyConnection, fuse: Fuse) -> None:
        self._db = db
        self._fuse = fuse

    def execute(self, statement: str, *parameters: Any) -> Any:  # noqa: ANN401 - whatever DuckDB takes and gives
        with self._fuse.alone:
            self._fuse.pass_("statement", statement)
            return self._db.execute(statement, *parameters)

    def commit(self) -> None:
        with self._fuse.alone:
            self._db.commit()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else it has
        return getattr(self._db, name)


def _executing(fuse: Fuse) -> Callable[..., None]:
    do_execute = Dialect.do_execute

    def execute(self: Dialect, cursor: Any, statement: str, *parameters: Any, **context: Any) -> None:  # noqa: ANN401
        with fuse.alone:
            fuse.pass_("statement", statement)
            do_execute(self, cursor, statement, *parameters, **context)

    return execute


def _committing(fuse: Fuse) -> Callable[..., None]:
    do_commit = Dialect.do_commit

    def commit(self: Dialect, connection: object) -> None:
        with fuse.alone:
            try:
                fuse.pass_("before commit")
            except duckdb.Error:
                # A transaction that DuckDB cannot commit is rolled back by it.
                Dialect.do_rollback(self, connection)
                raise
            do_commit(self, connection)  # type: ignore[no-untyped-call]
            fuse.pass_("after commit")

    return commit


def _writing(fuse: Fuse) -> Callable[[int, bytes], None]:
    def between() -> None:
        try:
            fuse.pass_("before commit")
        except duckdb.Error as error:
            raise OSError(errno.ENOSPC, "No space left on device") from error

    return torn_write(between)


def _appending(fuse: Fuse) -> Callable[[Segments, Sequence[Record]], None]:
    real = Segments.append

    def append(self: Segments, records: Sequence[Record]) -> None:
        with fuse.alone:
            real(self, records)
            fuse.pass_("after commit")

    return append


@contextmanager
def lit(fuse: Fuse) -> Iterator[None]:
    """Let every statement and commit of the writer pass the fuse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dialect, "do_execute", _executing(fuse))
        patch.setattr(Dialect, "do_commit", _committing(fuse))
        patch.setattr(segments, "write", _writing(fuse))
        patch.setattr(Segments, "append", _appending(fuse))
        for name, module in list(sys.modules.items()):
            if (
                name.startswith("connectors.warehouse.")
                and module is not connecting
                and hasattr(module, "raw_connection")
            ):
                patch.setattr(module, "raw_connection", lambda connection: _Watched(raw_connection(connection), fuse))
        yield
