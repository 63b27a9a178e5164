from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from connectors.warehouse.publish import contents, publish
from models.views import View
from tests.operator import Cli, run_here, use_empty_folder

_create_view = contents.create_view


def _without_comments(view: View) -> Iterator[str]:
    return islice(_create_view(view), 1)


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run tests in an empty folder, and publish views without comments, which take most of the time of publishing."""
    use_empty_folder(tmp_path, monkeypatch)
    monkeypatch.setattr(publish, "create_view", _without_comments)


@pytest.fixture
def run_cli() -> Cli:
    return run_here
