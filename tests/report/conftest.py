from pathlib import Path

import pytest

from tests.operator import use_empty_folder
from tests.report.snapshots import three_days


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_empty_folder(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_days(tmp_path_factory.mktemp("three-days"))
