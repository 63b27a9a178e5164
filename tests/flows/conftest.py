import os
from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and an environment that says nothing."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("GRAMHOUSE_", "PREFECT_")):
            monkeypatch.delenv(name)
