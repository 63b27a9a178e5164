from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warehouse.rig import Rig, opened


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with opened(tmp_path) as found:
        yield found


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Where a test publishes."""
    return tmp_path / "out" / "analytics.duckdb"
