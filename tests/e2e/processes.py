"""What end-to-end tests run: a sandbox in a thread, and gramhouse in a process or in this one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from connectors.sandbox.settings import SandboxSettings
from connectors.state.database import open_state_read_only, state_path
from connectors.state.inbox import Inbox
from connectors.warehouse.queries.raw_media import add_raw_media
from connectors.warehouse.queries.user_query import mentions_raw_media
from flows.cli.app import main
from flows.reporting.progress import notices
from models.landing import Landing
from tests.api.server import Api

KEY = "sandbox-demo-key"
COMMAND_LINE = ("-m", "flows.cli")
ROOT = Path(__file__).parents[2]
# Seconds. A busy machine may need minutes for what usually takes seconds.
TIMEOUT = 240.0
# Proxies that do not exist, one of which Prefect's client cannot use. Processes on this machine need none.
PROXIES = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "ALL_PROXY": "socks5://127.0.0.1:9",
    "no_proxy": "fe80::/10,example.com",
}
EIGHT_ACCOUNTS = {"accounts": 8, "posts": 30, "seed": 11}


def wait_until(condition: Callable[[], bool], what: str, *, pause: float = 0.01) -> None:
    """Wait for something that another process does, polling every `pause` seconds; fail after TIMEOUT."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, f"waited {TIMEOUT} s for {what}"
        time.sleep(pause)


@dataclass
class Operator:
    """Runs gramhouse commands in a folder, with an environment."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.folder / "analytics.duckdb"

    def environment(self, **changes: str) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("GRAMHOUSE_", "PREFECT_"))
        }
        files = {"GRAMHOUSE_WAREHOUSE": str(self.warehouse), "GRAMHOUSE_SNAPSHOT": str(self.snapshot)}
        return {**inherited, **files, **self.env, **changes}

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return self.start_python(*COMMAND_LINE, *arguments, env=env)

    def start_python(self, *arguments: str, cwd: Path = ROOT, env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a Python process in `cwd`, from which it imports gramhouse."""
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment(**env),
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=TIMEOUT)
        return _checked(subprocess.CompletedProcess(arguments, process.returncode, out, err), code)

    def sync(self, *, code: int = 0, **env: str) -> dict[str, Any]:
        return dict(json.loads(self.run("sync", "--json", code=code, **env).stdout))

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.snapshot), read_only=True) as db:
            if mentions_raw_media(query):
                add_raw_media(db)
            return db.execute(query, parameters).fetchall()

    def inside(self, query: str) -> list[tuple[Any, ...]]:
        """Query the warehouse itself; no other process may have it open."""
        with duckdb.connect(str(self.warehouse), read_only=True) as db:
            return db.execute(query).fetchall()

    def landed(self) -> list[Landing]:
        """Return what landed and is not merged."""
        with open_state_read_only(state_path(self.warehouse)) as state:
            return [] if state is None else list(Inbox(state).after(0))


class OperatorHere(Operator):
    """Runs commands in this process, which takes half of the time. `start` begins another process."""

    def run(self, *arguments: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        out, err = StringIO(), StringIO()
        with (
            chdir(ROOT),
            patch.dict(os.environ, self.environment(**env), clear=True),
            patch.object(sys, "argv", ["gramhouse", *arguments]),
            patch.object(notices, "handlers", []),
            redirect_stdout(out),
            redirect_stderr(err),
            pytest.raises(SystemExit) as exited,
        ):
            main()
        returned = int(exited.value.code or 0)
        return _checked(subprocess.CompletedProcess(arguments, returned, out.getvalue(), err.getvalue()), code)


def _checked(done: subprocess.CompletedProcess[str], code: int) -> subprocess.CompletedProcess[str]:
    assert done.returncode == code, f"exit code {done.returncode}, not {code}:\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr
    return done


@contextmanager
def start_sandboxes() -> Iterator[Callable[..., Api]]:
    """Yield a function that starts a sandbox with the given options; stop all of them at the end."""
    with ExitStack() as stack:

        def begin(shape: str = "mixed", **options: Any) -> Api:  # noqa: ANN401 - fields of SandboxSettings
            return stack.enter_context(Api(SandboxSettings(**options), shape=shape).serve())

        yield begin


@contextmanager
def killed_on_exit(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill a process at the end of the block, if it still runs."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)
