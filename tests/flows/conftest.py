from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from connectors.warehouse.snapshot import stored_views
from models.views import View
from tests.cli_runner import Cli, use_empty_folder

_creating = stored_views.creating


def _without_comments(view: View) -> Iterator[str]:
    return islice(_creating(view), 1)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run tests in an empty folder, and publish views without comments, which take most of the time of publishing."""
    use_empty_folder(tmp_path, monkeypatch)
    monkeypatch.setattr(stored_views, "creating", _without_comments)


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)
