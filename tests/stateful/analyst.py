"""Somebody who reads the snapshot, and keeps it open until the next one is there."""

import copy
from datetime import datetime
from pathlib import Path

import duckdb

from tests.stateful.compare import column_of_drift, outcomes, same
from tests.stateful.model import Model, Row


class Analyst:
    """Has the last snapshot open; `at` is when it was published, and the rest what was in the model by then."""

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
        same(self._model.tables(inside=False), self._ask, inside=False)
        column_of_drift(self._model, self._ask, inside=False)
        assert outcomes(self._ask, inside=False) == self._outcomes

    def look(self, path: Path, model: Model, rows: list[Row], *, at: datetime, published: bool) -> None:
        """See what there is after a publishing that returned, or did not: the new snapshot, or the one before."""
        self.close()
        if not path.exists():
            assert not published, "published, and not there"
            assert self._at is None, "the snapshot is gone"
            return
        self._db = duckdb.connect(str(path), read_only=True, config={"threads": "1"})
        ((there,),) = self._ask("SELECT snapshot_at FROM published")
        if there == at:
            self._at, self._model, self._outcomes = at, copy.deepcopy(model), sorted(rows)
        assert there == self._at
        assert there == at or not published, "published, and still the old one"
        self._read()
        self._file = _stamp(path)

    def still_has_it(self, path: Path) -> None:
        """Raise AssertionError if the snapshot was touched since."""
        assert (_stamp(path) if path.exists() else None) == self._file, "a snapshot changed in its place"

    def close(self) -> None:
        """Read once more what is open, and close it."""
        if self._db is not None:
            try:
                self._read()
            finally:
                self._db.close()
                self._db = None


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
