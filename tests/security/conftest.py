from pathlib import Path

import pytest

from tests.cli_runner import Cli, use_empty_folder


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    use_empty_folder(tmp_path, monkeypatch)
    return Cli(monkeypatch, capsys)
