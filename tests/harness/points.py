"""The points where a process can be killed or its disk be full: each statement, commit and change of a file.

They are in the libraries, not in gramhouse: DuckDB's and SQLite's connections, `os`, and files opened for writing.
Between two of them nothing is written, so a kill in between leaves the files of a kill at the next one.
"""

import builtins
import errno
import io
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pytest

# These statements write nothing, so a full disk cannot make them fail.
_HARMLESS = re.compile(
    r"\s*(SELECT|FROM|WITH|SET|RESET|USE|DETACH|PRAGMA|BEGIN|ROLLBACK|EXPLAIN|DESCRIBE|LOAD)\b", re.I
)
_FULL = "No space left on device"
_DUCKDB_FULL, _OS_FULL = duckdb.IOException(f"IO Error: {_FULL}"), OSError(errno.ENOSPC, _FULL)
# A full disk does not stop the last three, which free space or change names.
_FILES = (
    *("write", "replace", "rename", "link", "mkdir", "truncate", "ftruncate", "copy_file_range"),
    *("unlink", "rmdir", "fsync"),
)


class Killed(BaseException):
    """The process was killed here, as by kill -9."""


@dataclass(frozen=True, slots=True)
class Crash:
    """At the nth point, counted from 1, the process is killed; or its disk is full, for `lasts` points."""

    nth: int
    dies: bool = True
    lasts: int = 1


class Points:
    """Counts the points that a process reaches, and carries out `crash`; `on_death` is called before it dies.

    `lock` is held during each statement, so that no other thread writes while `on_death` copies the files: files copied
    during a checkpoint of DuckDB would not be those that a killed process leaves.
    """

    def __init__(self, crash: Crash | None, on_death: Callable[[], None]) -> None:
        self._crash = crash
        self._on_death = on_death
        self.lock = threading.RLock()
        self.reached = 0
        self.dead = False

    def reach(self, full: Exception | None = None) -> None:
        """Kill the process if this is the point; raise `full` if the disk is full here, and this would write."""
        crash = self._crash
        if crash is None or self.dead or not (crash.dies or full):
            return
        self.reached += 1
        if crash.dies and self.reached == crash.nth:
            self.dead = True
            self._on_death()
            raise Killed
        if full and not crash.dies and crash.nth <= self.reached < crash.nth + crash.lasts:
            raise full

    def change(self, name: str, real: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the library's
        """Change a file. Half of what is written is there when the process dies in a write."""
        with self.lock:
            if name == "write" and self._crash == Crash(self.reached + 1):
                real(args[0], args[1][: len(args[1]) // 2])
            self.reach(None if name in _FILES[-3:] else _OS_FULL)
            return real(*args, **options)

    def open(self, real: Callable[..., Any], file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """Open a file; one opened for writing is empty when the process dies here."""
        opened = real(file, mode, *args, **options)
        if set(mode) & set("wxa+") and not isinstance(file, int):
            try:
                self.reach(_OS_FULL)
            except BaseException:
                opened.close()
                raise
        return opened

    def statement(self, real: Callable[..., Any], db: Any, statement: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        with self.lock:
            harmless = not isinstance(statement, str) or _HARMLESS.match(statement)
            self.reach(None if harmless else _DUCKDB_FULL)
            return real(db, statement, *args, **options)

    def commit(self, real: Callable[..., Any], db: Any) -> None:  # noqa: ANN401
        """Commit. DuckDB rolls back a transaction that it cannot commit."""
        with self.lock:
            try:
                self.reach(_DUCKDB_FULL)
            except duckdb.Error:
                db.rollback()
                raise
            real(db)


def _sqlite(points: Points) -> type[sqlite3.Connection]:
    """Return a class of connections whose statements and commits are points."""
    real = sqlite3.Connection

    def method(name: str) -> Callable[..., Any]:
        return lambda db, *args: points.change("statement", getattr(real, name), db, *args)

    return type("Sqlite", (real,), {name: method(name) for name in ("execute", "executemany", "commit")})


@contextmanager
def installed(points: Points) -> Iterator[None]:
    """Make every statement, commit and change of a file in this block a point; close what it leaves open."""
    db, opened = duckdb.DuckDBPyConnection, list[duckdb.DuckDBPyConnection]()

    def opening(real: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the library's
        opened.append(real(*args, **options))
        return opened[-1]

    def method(around: Callable[..., Any], name: str) -> Callable[..., Any]:
        real = getattr(db, name)
        return lambda *args, **options: around(real, *args, **options)

    around: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(("cursor", "duplicate"), opening),
        **dict.fromkeys(("execute", "executemany"), points.statement),
        **dict.fromkeys(("commit", "checkpoint"), points.commit),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", partial(opening, duckdb.connect))
        for name, instead in around.items():
            patch.setattr(db, name, method(instead, name))
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_sqlite(points)))
        patch.setattr(sqlite3.dbapi2, "connect", sqlite3.connect)
        for name in filter(partial(hasattr, os), _FILES):
            patch.setattr(os, name, partial(points.change, name, getattr(os, name)))
        patch.setattr(shutil, "copyfile", partial(points.change, "copy", shutil.copyfile))
        patch.setattr(builtins, "open", partial(points.open, io.open))
        patch.setattr(io, "open", builtins.open)
        try:
            yield
        finally:
            # A killed process closes nothing, but its files are those of the next one in this test.
            for each in opened:
                each.close()
