import os
from pathlib import Path

import pytest

from tests.report.made import three_nights


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("GRAMHOUSE_", "PREFECT_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nights of a sandbox."""
    return three_nights(tmp_path_factory.mktemp("nights"))
