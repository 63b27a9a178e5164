from pathlib import Path

import pytest

from tests.report.snapshots import three_days


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_days(tmp_path_factory.mktemp("three-days"))
