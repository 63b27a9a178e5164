"""Runs commands of the command line in this process."""

import os
import sys
from pathlib import Path

import pytest

from flows.cli.app import main


def use_empty_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder and remove all settings from the environment."""
    monkeypatch.chdir(folder)
    for name in os.environ:
        if name.startswith(("GRAMHOUSE_", "PREFECT_")):
            monkeypatch.delenv(name)


class Cli:
    """Call it with the arguments of a command; it returns the exit code, stdout and stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["gramhouse", *arguments])
        with pytest.raises(SystemExit) as exited:
            main()
        output = self._capsys.readouterr()
        return int(exited.value.code or 0), output.out, output.err
