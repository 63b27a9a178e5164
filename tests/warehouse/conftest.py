from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.warehouse.storage.connection import Connection
from tests.warehouse.rig import Rig, emptied, in_memory


@pytest.fixture(scope="session")
def opened_rig() -> Iterator[Connection]:
    with in_memory() as connection:
        yield connection


@pytest.fixture
def rig(opened_rig: Connection) -> Rig:
    """An empty warehouse in memory: reset for each test, because opening one takes a tenth of a second."""
    return emptied(opened_rig)


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Where a test publishes."""
    return tmp_path / "out" / "analytics.duckdb"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "warehouse.duckdb"
