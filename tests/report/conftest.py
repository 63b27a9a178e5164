from pathlib import Path

import pytest

from tests.operator import use_empty_folder
from tests.snapshots import snapshot

__all__ = ["snapshot"]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_empty_folder(tmp_path, monkeypatch)
