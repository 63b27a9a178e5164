"""A reader that compares the snapshot with the model, and keeps it open until the next one is published."""

import copy
from datetime import datetime
from pathlib import Path

import duckdb

from tests.stateful.compare import assert_drifting_column, assert_equal, outcomes
from tests.stateful.model import Model, Row


class SnapshotReader:
    """Keeps the last snapshot open, together with the state of the model at its publication."""

    def __init__(self) -> None:
        self._db: duckdb.DuckDBPyConnection | None = None
        self._at: datetime | None = None
        self._model = Model()
        self._outcomes: list[Row] = []
        self._file: tuple[int, int] | None = None

    def _ask(self, query: str) -> list[Row]:
        assert self._db is not None
        return self._db.execute(query).fetchall()

    def _read(self) -> None:
        assert_equal(self._model.tables(inside=False), self._ask, inside=False)
        assert_drifting_column(self._model, self._ask, inside=False)
        assert outcomes(self._ask, inside=False) == self._outcomes

    def check(self, path: Path, model: Model, rows: list[Row], *, at: datetime, published: bool) -> None:
        """Check the snapshot after a publish, which may have failed: it is the new one, or else the one before."""
        self.close()
        if not path.exists():
            assert not published, "publish returned, but there is no snapshot"
            assert self._at is None, "the snapshot was deleted"
            return
        self._db = duckdb.connect(str(path), read_only=True, config={"threads": "1"})
        ((there,),) = self._ask("SELECT snapshot_at FROM published")
        if there == at:
            self._at, self._model, self._outcomes = at, copy.deepcopy(model), sorted(rows)
        assert there == self._at
        assert there == at or not published, "publish returned, but the snapshot is the old one"
        self._read()
        self._file = _stamp(path)

    def check_unchanged(self, path: Path) -> None:
        """Raise AssertionError if the snapshot has been modified since."""
        assert (_stamp(path) if path.exists() else None) == self._file, "the snapshot was modified in place"

    def close(self) -> None:
        """Read the open snapshot once more and close it."""
        if self._db is not None:
            try:
                self._read()
            finally:
                self._db.close()
                self._db = None


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
