"""DuckDB's limits of memory and threads, and queries that need more memory than a run."""

from collections.abc import Iterator

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.limits import SETTINGS, on_all_cores

# One and a half times a run's memory, in one piece that cannot be spilled to disk.
TOO_MUCH = "SELECT len(list(range)) FROM range(50000000)"
SAID = "SELECT current_setting('memory_limit'), current_setting('threads')"


@pytest.fixture
def db() -> Iterator[DuckDBPyConnection]:
    with duckdb.connect() as opened:
        for name, setting in SETTINGS.items():
            opened.execute(f"SET {name} = '{setting}'")
        yield opened


def asked(db: DuckDBPyConnection, query: str) -> tuple[object, ...]:
    (row,) = db.execute(query).fetchall()
    return tuple(row)


def test_an_error_in_a_transaction_is_not_hidden(db: DuckDBPyConnection) -> None:
    before = asked(db, SAID)
    db.execute("BEGIN")
    with pytest.raises(duckdb.OutOfMemoryException), on_all_cores(db):
        db.execute(TOO_MUCH)
    db.execute("ROLLBACK")
    assert asked(db, SAID) == before


def test_settings_are_restored_after_using_all_cores(db: DuckDBPyConnection) -> None:
    before = asked(db, SAID)
    with pytest.raises(RuntimeError), on_all_cores(db):
        raise RuntimeError
    assert asked(db, SAID) == before
    with pytest.raises(duckdb.OutOfMemoryException):
        db.execute(TOO_MUCH)
