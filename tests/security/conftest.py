from pathlib import Path

import pytest

from tests.typed import Typed, move_to


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    move_to(tmp_path, monkeypatch)
    return Typed(monkeypatch, capsys)
