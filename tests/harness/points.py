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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

Function = Callable[..., Any]
_open = io.open
# These statements write nothing, so a full disk cannot make them fail.
_HARMLESS = re.compile(
    r"\s*(SELECT|FROM|WITH|SET|RESET|USE|DETACH|PRAGMA|BEGIN|ROLLBACK|EXPLAIN|DESCRIBE|LOAD)\b", re.I
)
_OF_DUCKDB = ("execute", "executemany", "commit", "checkpoint")
_OF_FILES = ("write", "replace", "rename", "link", "mkdir", "truncate", "ftruncate", "copy_file_range")
# A full disk does not stop these, which free space or change nothing.
_FREEING = ("unlink", "rmdir", "fsync")


class Killed(BaseException):
    """The process was killed here, as by kill -9."""


@dataclass(frozen=True, slots=True)
class Crash:
    """At the nth point, counted from 1, the process is killed; or its disk is full, for `lasts` points.

    With a `name`, only calls of that function count.
    """

    nth: int
    dies: bool = True
    lasts: int = 1
    name: str = ""


def _full(name: str, arguments: Sequence[Any]) -> Exception | None:
    """Return the error of a call if the disk is full; None if it needs no space."""
    what = "No space left on device"
    if name not in _OF_DUCKDB:
        return None if name in _FREEING else OSError(errno.ENOSPC, what)
    is_harmless = name.startswith("execute") and not (
        isinstance(arguments[1], str) and not _HARMLESS.match(arguments[1])
    )
    return None if is_harmless else duckdb.IOException(f"IO Error: {what}")


class Points:
    """Counts the points that a process reaches, and carries out `crash`; `on_death` is called before it dies.

    At each of them there is a file at `watched`, if there was one when the process began: the snapshot of the analysts.

    `lock` is held during each statement, so that no other thread writes while `on_death` copies the files: files copied
    during a checkpoint of DuckDB would not be those that a killed process leaves.
    """

    def __init__(self, crash: Crash | None, on_death: Callable[[], None], watched: Path) -> None:
        self._crash, self._on_death = crash, on_death
        self._watched = watched if watched.exists() else None
        self.lock = threading.RLock()
        self.reached, self.dead = 0, False

    def reach(self, name: str = "", full: Exception | None = None) -> None:
        """Kill the process if this is the point; raise `full` if the disk is full here, and this would write."""
        crash = self._crash
        assert self._watched is None or self._watched.stat().st_size
        if crash is None or self.dead or not (crash.dies or full) or crash.name not in ("", name):
            return
        self.reached += 1
        if crash.dies and self.reached == crash.nth:
            self.dead = True
            self._on_death()
            raise Killed
        if full and not crash.dies and crash.nth <= self.reached < crash.nth + crash.lasts:
            raise full

    def call(self, name: str, real: Function, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the library's
        """Call a function of a library, unless the process dies here. Half of a write is there when it dies in it."""
        with self.lock:
            if name == "write" and self._crash == Crash(self.reached + 1):
                real(args[0], args[1][: len(args[1]) // 2])
            try:
                self.reach(name, _full(name, args))
            except duckdb.Error:
                # DuckDB rolls back a transaction that it cannot commit.
                if name in ("commit", "checkpoint"):
                    args[0].rollback()
                raise
            return real(*args, **options)

    def open(self, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as builtins.open
        """Open a file; one opened for writing is empty when the process dies here."""
        opened = _open(file, mode, *args, **options)
        if set(mode) & set("wxa+") and not isinstance(file, int):
            try:
                self.reach("open", _full("open", ()))
            except BaseException:
                opened.close()
                raise
        return opened


@contextmanager
def installed(points: Points) -> Iterator[None]:
    """Make every statement, commit and change of a file in this block a point; close what it leaves open."""
    opened = list[duckdb.DuckDBPyConnection]()

    def point(name: str, real: Function) -> Function:
        # A function, because it becomes a method of classes, too.
        return lambda *args, **options: points.call(name, real, *args, **options)

    def connecting(real: Function) -> Function:
        def connect(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the library's
            opened.append(real(*args, **options))
            return opened[-1]

        return connect

    of_sqlite = {
        name: point("sqlite", getattr(sqlite3.Connection, name)) for name in ("execute", "executemany", "commit")
    }
    factory = type("Sqlite", (sqlite3.Connection,), of_sqlite)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", connecting(duckdb.connect))
        for name in ("cursor", "duplicate"):
            patch.setattr(duckdb.DuckDBPyConnection, name, connecting(getattr(duckdb.DuckDBPyConnection, name)))
        for name in _OF_DUCKDB:
            patch.setattr(duckdb.DuckDBPyConnection, name, point(name, getattr(duckdb.DuckDBPyConnection, name)))
        for module in (sqlite3, sqlite3.dbapi2):
            patch.setattr(module, "connect", partial(sqlite3.connect, factory=factory))
        for name in filter(partial(hasattr, os), (*_OF_FILES, *_FREEING)):
            patch.setattr(os, name, point(name, getattr(os, name)))
        patch.setattr(shutil, "copyfile", point("copy", shutil.copyfile))
        for module in (builtins, io):
            patch.setattr(module, "open", points.open)
        try:
            yield
        finally:
            # A killed process closes nothing, but its files are those of the next one in this test.
            for each in opened:
                each.close()
