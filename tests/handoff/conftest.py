from pathlib import Path

import pytest

from tests.report.snapshots import made_once


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory)
