"""The operator of tests: runs gramhouse's commands in this process, or as processes."""

import json
import logging
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from unittest.mock import patch

import duckdb
import pytest

from connectors.warehouse.queries.reader import add_raw_media, mentions_raw_media
from flows.cli.app import main
from flows.cli.terminal import LOGGERS

KEY = "sandbox-demo-key"
COMMAND_LINE = ("-m", "flows.cli")
ROOT = Path(__file__).parents[1]
# Seconds. A busy machine may need minutes for what usually takes seconds.
TIMEOUT = 240.0
# Proxies that do not exist. Processes on this machine need none.
PROXIES = {
    **dict.fromkeys(("HTTP_PROXY", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9"),
    "no_proxy": "fe80::1,example.com",
}
_OURS = ("GRAMHOUSE_", "PREFECT_")
_OF_NETWORKS = ("_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Done(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """All that was printed, on one line."""
        return " ".join((self.stdout + self.stderr).split())

    def json(self) -> Any:  # noqa: ANN401 - JSON is anything
        assert self.stdout.startswith(("{", "[")), self.text
        return json.loads(self.stdout)


Cli = Callable[..., Done]


class _Stream(TextIOWrapper):
    """Keeps what is written. It is a terminal if the stream in its place is one."""

    def __init__(self, replaced: TextIO) -> None:
        self.written = BytesIO()
        super().__init__(self.written, "utf-8", newline="", write_through=True)
        self.isatty = replaced.isatty  # type: ignore[method-assign]


def run_here(*arguments: str) -> Done:
    """Run a command in this process."""
    out, err = _Stream(sys.stdout), _Stream(sys.stderr)
    with ExitStack() as stack:
        for logger in map(logging.getLogger, LOGGERS):
            stack.enter_context(patch.multiple(logger, handlers=list(logger.handlers), propagate=logger.propagate))
        # Commands set variables for the processes that they start.
        stack.enter_context(patch.dict(os.environ))
        stack.enter_context(patch.object(sys, "argv", ["gramhouse", *arguments]))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        exited = stack.enter_context(pytest.raises(SystemExit))
        main()
    return Done(int(exited.value.code or 0), out.written.getvalue().decode(), err.written.getvalue().decode())


def use_empty_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder, and remove all settings from the environment."""
    monkeypatch.chdir(folder)
    for name in filter(lambda name: name.startswith(_OURS), list(os.environ)):
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the tests of a folder whose conftest imports this in an empty folder, without settings."""
    use_empty_folder(tmp_path, monkeypatch)


@pytest.fixture
def run_cli(bare: None) -> Cli:  # noqa: ARG001 - it comes first
    return run_here


def wait_until(condition: Callable[[], bool], what: str, *, pause: float = 0.01) -> None:
    """Wait for something that another process does, polling every `pause` seconds; fail after TIMEOUT."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, f"waited {TIMEOUT} s for {what}"
        time.sleep(pause)


@contextmanager
def killed_on_exit(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill a process at the end of the block, if it still runs."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


@dataclass
class Operator:
    """Runs commands on the files of a folder, with an environment: as processes, or `here`, in half of the time."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    here: bool = False
    cwd: Path = ROOT

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.folder / "analytics.duckdb"

    def environment(self, **changes: str) -> dict[str, str]:
        others = (name for name in os.environ if not name.startswith(_OURS) and not name.upper().endswith(_OF_NETWORKS))
        inherited = {name: os.environ[name] for name in others}
        files = {"GRAMHOUSE_WAREHOUSE": str(self.warehouse), "GRAMHOUSE_SNAPSHOT": str(self.snapshot)}
        return {**inherited, **files, **self.env, **changes}

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return self.start_python(*COMMAND_LINE, *arguments, env=env)

    def start_python(self, *arguments: str, cwd: Path = ROOT, env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a Python process in `cwd`, from which it imports gramhouse."""
        command, pipe = [sys.executable, *arguments], subprocess.PIPE
        return subprocess.Popen(command, env=self.environment(**env), cwd=cwd, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str, code: int | None = 0, **env: str) -> Done:
        """Run a command, which must exit with `code`, unless that is None."""
        if self.here:
            with chdir(self.cwd), patch.dict(os.environ, self.environment(**env), clear=True):
                done = run_here(*arguments)
        else:
            process = self.start(*arguments, **env)
            printed = process.communicate(timeout=TIMEOUT)
            done = Done(process.returncode, *printed)
        assert code in (None, done.code), f"exit code {done.code}, not {code}:\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return done

    def sync(self, *, code: int = 0, **env: str) -> dict[str, Any]:
        return dict(self.run("sync", "--json", code=code, **env).json())

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.snapshot), read_only=True) as db:
            if mentions_raw_media(query):
                add_raw_media(db)
            return db.execute(query, parameters).fetchall()

    def inside(self, query: str) -> list[tuple[Any, ...]]:
        """Query the warehouse itself; no other process may have it open."""
        with duckdb.connect(str(self.warehouse), read_only=True) as db:
            return db.execute(query).fetchall()

    def in_state(self, query: str) -> list[tuple[Any, ...]]:
        """Query the state."""
        with closing(sqlite3.connect(f"{self.warehouse}.state.sqlite")) as db:
            return db.execute(query).fetchall()
