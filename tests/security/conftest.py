import os
from pathlib import Path

import pytest

from tests.typed import Typed


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("GRAMHOUSE_", "PREFECT_")):
            monkeypatch.delenv(name)
    return Typed(monkeypatch, capsys)
