"""Commands as they are typed, in this process."""

import os
import sys
from pathlib import Path

import pytest

from flows.cli.app import main


def move_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an empty folder the current one, in an environment that says nothing."""
    monkeypatch.chdir(folder)
    for name in os.environ:
        if name.startswith(("GRAMHOUSE_", "PREFECT_")):
            monkeypatch.delenv(name)


class Typed:
    """Type a command; get its exit code, and what it said on both streams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["gramhouse", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        message = self._capsys.readouterr()
        return int(ended.value.code or 0), message.out, message.err
