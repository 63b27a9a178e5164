from pathlib import Path

import pytest

from tests.operator import Cli, run_here, use_empty_folder


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run tests in an empty folder, without settings."""
    use_empty_folder(tmp_path, monkeypatch)


@pytest.fixture
def run_cli() -> Cli:
    return run_here
