"""The points where a process can be killed or its disk be full: each statement, commit and change of a file.

They are in the libraries, not in gramhouse: DuckDB's and SQLite's connections, `os`, and files opened for writing.
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

from tests.harness.loop import Killed

# These statements write nothing, so a full disk cannot make them fail.
_HARMLESS = re.compile(
    r"\s*(SELECT|FROM|WITH|SET|RESET|USE|DETACH|PRAGMA|BEGIN|ROLLBACK|EXPLAIN|DESCRIBE|LOAD)\b", re.I
)
_FULL = "No space left on device"
# What changes the names of files, or frees space: a full disk does not stop it.
_FREES = ("unlink", "rmdir", "fsync")


@dataclass(frozen=True, slots=True)
class Crash:
    """At the nth point, counted from 1, the process is killed; or without `dies`, its disk is full from there on.

    `steps`: the nth step of its event loop instead. `lasts`: for how many points the disk is full.
    """

    nth: int
    steps: bool = False
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
        if crash is None or crash.steps or self.dead:
            return
        if not crash.dies:
            if full is None:
                return
            self.reached += 1
            if crash.nth <= self.reached < crash.nth + crash.lasts:
                raise full
            return
        self.reached += 1
        if self.reached == crash.nth:
            self.dead = True
            self._on_death()
            raise Killed

    def die(self) -> None:
        """Die now: a step of the loop was the point."""
        self.dead = True
        self._on_death()

    def file(self, name: str, real: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the library's
        """Change a file. Half of what is written is there when the process dies in a write."""
        with self.lock:
            full = None if name in _FREES else OSError(errno.ENOSPC, _FULL)
            if name == "write" and self._crash == Crash(self.reached + 1):
                real(args[0], args[1][: len(args[1]) // 2])
            self.reach(full)
            return real(*args, **options)

    def open(self, real: Callable[..., Any], file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """Open a file; one opened for writing is empty when the process dies here."""
        opened = real(file, mode, *args, **options)
        if set(mode) & set("wxa+") and not isinstance(file, int):
            try:
                self.reach(OSError(errno.ENOSPC, _FULL))
            except BaseException:
                opened.close()
                raise
        return opened

    def statement(self, real: Callable[..., Any], db: Any, statement: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        with self.lock:
            harmless = not isinstance(statement, str) or _HARMLESS.match(statement)
            self.reach(None if harmless else duckdb.IOException(f"IO Error: {_FULL}"))
            return real(db, statement, *args, **options)

    def commit(self, real: Callable[..., Any], db: Any) -> None:  # noqa: ANN401
        """Commit. Dying right after it is dying at the next point, because nothing is written between them."""
        with self.lock:
            try:
                self.reach(duckdb.IOException(f"IO Error: {_FULL}"))
            except duckdb.Error:
                # DuckDB rolls back a transaction that it cannot commit.
                db.rollback()
                raise
            real(db)


class _Sqlite(sqlite3.Connection):
    """A connection whose statements and commits are points of the process."""

    points: Points

    def execute(self, *args: Any) -> Any:  # noqa: ANN401 - SQLite's own
        return self.points.file("statement", super().execute, *args)

    def executemany(self, *args: Any) -> Any:  # noqa: ANN401 - SQLite's own
        return self.points.file("statement", super().executemany, *args)

    def commit(self) -> None:
        self.points.file("commit", super().commit)


_FILES = (
    *("write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "truncate", "ftruncate"),
    "copy_file_range",
)


@contextmanager
def installed(points: Points) -> Iterator[None]:
    """Make every statement, commit and change of a file in this block a point; close what it leaves open."""
    db, opened, class_ = duckdb.DuckDBPyConnection, list[duckdb.DuckDBPyConnection](), type("Sqlite", (_Sqlite,), {})
    class_.points = points  # type: ignore[attr-defined]

    def method(real: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: around(real, *args, **options)

    def opening(real: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the library's
        opened.append(real(*args, **options))
        return opened[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", partial(opening, duckdb.connect))
        for name in ("cursor", "duplicate"):
            patch.setattr(db, name, method(getattr(db, name), opening))
        for name in ("execute", "executemany"):
            patch.setattr(db, name, method(getattr(db, name), points.statement))
        for name in ("commit", "checkpoint"):
            patch.setattr(db, name, method(getattr(db, name), points.commit))
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=class_))
        patch.setattr(sqlite3.dbapi2, "connect", sqlite3.connect)
        for name in filter(partial(hasattr, os), _FILES):
            patch.setattr(os, name, partial(points.file, name, getattr(os, name)))
        patch.setattr(shutil, "copyfile", partial(points.file, "copy", shutil.copyfile))
        patch.setattr(builtins, "open", partial(points.open, io.open))
        patch.setattr(io, "open", builtins.open)
        try:
            yield
        finally:
            # A killed process closes nothing, but its files are those of the next one in this test.
            for each in opened:
                each.close()
