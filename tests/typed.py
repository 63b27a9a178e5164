"""Commands as they are typed, in this process."""

import sys

import pytest

from flows.cli.app import main


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
