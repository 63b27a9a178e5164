from pathlib import Path

import pytest

from tests.typed import move_to


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    move_to(tmp_path, monkeypatch)
