import os
import sys
from pathlib import Path

import pytest

from flows.cli.app import main


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Typed:
    """Type a command; get its exit code, and what it said on both streams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["gramhouse", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("GRAMHOUSE_", "PREFECT_")):
            monkeypatch.delenv(name)
    return Typed(monkeypatch, capsys)
