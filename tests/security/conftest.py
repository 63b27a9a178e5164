from pathlib import Path

import pytest

from tests.operator import Cli, run_here, use_empty_folder


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    use_empty_folder(tmp_path, monkeypatch)
    return run_here
