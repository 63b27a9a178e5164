"""The processes of end-to-end tests: the sandbox in one, gramhouse in another."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.raw.listed import listed_parts, mentions_raw_media, raw_media
from connectors.warehouse.storage.connection import connect
from tests.landed import unmerged

KEY = "sandbox-demo-key"
# Seconds. A busy machine may need minutes for what usually takes seconds.
TIMEOUT = 240.0
# Proxies that do not exist, one of which Prefect's client cannot use. Processes on this machine need none.
PROXIES = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "ALL_PROXY": "socks5://127.0.0.1:9",
    "no_proxy": "fe80::/10,example.com",
}
EIGHT_ACCOUNTS = ("--accounts", "8", "--posts", "30", "--seed", "11")


def wait_until(condition: Callable[[], bool], what: str, *, pause: float = 0.01) -> None:
    """Wait for something that another process does, polling every `pause` seconds; fail after TIMEOUT."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, f"waited {TIMEOUT} s for {what}"
        time.sleep(pause)


# A program of an operator whose syncs are seconds apart: a second scan confirms removals at once.
AT_ONCE = """
import models.removal
models.removal.CONFIRM_AFTER_HOURS = models.removal.ACCOUNTS_CONFIRM_AFTER_HOURS = 0
from flows.cli.__main__ import run
run()
"""


@dataclass(frozen=True)
class SandboxProcess:
    """A sandbox in a separate process, controlled over its control endpoints."""

    url: str

    def _call(self, method: str, path: str, document: object = None) -> bytes:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=30)
        try:
            connection.request(method, path, None if document is None else json.dumps(document))
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, body
            return body
        finally:
            connection.close()

    def day(self, day: int) -> "SandboxProcess":
        self._call("POST", "/_sandbox/day", {"day": day})
        return self

    def expired(self) -> set[str]:
        return {account["id"] for account in self.accounts() if account["status"] == "token_expired"}

    def active(self) -> list[str]:
        return [account["id"] for account in self.accounts() if account["status"] == "active"]

    def faults(self, *rules: Mapping[str, object]) -> None:
        self._call("POST", "/_sandbox/rules", list(rules))

    def limits(self, **limits: Mapping[str, float] | None) -> None:
        self._call("POST", "/_sandbox/limits", limits)

    def forget(self) -> None:
        self._call("DELETE", "/_sandbox/requests")

    def stats(self) -> dict[str, Any]:
        return dict(json.loads(self._call("GET", "/_sandbox/stats")))

    def requests(self) -> list[dict[str, Any]]:
        return list(json.loads(self._call("GET", "/_sandbox/requests")))

    def accounts(self) -> list[dict[str, Any]]:
        return list(json.loads(self._call("GET", "/_sandbox/accounts")))

    def media(self) -> list[dict[str, Any]]:
        return list(json.loads(self._call("GET", "/_sandbox/media")))


@dataclass
class Operator:
    """Runs gramhouse commands in a folder, with an environment."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "flows.cli")

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
        return subprocess.Popen(
            [sys.executable, *self.program, *arguments],
            env=self.environment(**env),
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **env)
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == code, f"exit code {process.returncode}, not {code}:\n{out}\n{err}"
        assert "Traceback" not in out + err
        return subprocess.CompletedProcess(arguments, code, out, err)

    def sync(self, *, code: int = 0, **env: str) -> dict[str, Any]:
        return dict(json.loads(self.run("sync", "--json", code=code, **env).stdout))

    def ask(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.snapshot), read_only=True) as db:
            if mentions_raw_media(query):
                db.execute(raw_media(listed_parts(db)))
            return db.execute(query, parameters).fetchall()

    def inside(self, query: str) -> list[tuple[Any, ...]]:
        """Query the warehouse itself; no other process may have it open."""
        with connect(self.warehouse) as connection:
            return connection.db.execute(query).fetchall()

    def landed(self) -> list[Frame]:
        """Return what landed and is not merged; no other process may have the warehouse open."""
        with connect(self.warehouse) as connection:
            return unmerged(connection)


@contextmanager
def start_sandboxes() -> Iterator[Callable[..., SandboxProcess]]:
    """Yield a function that starts a sandbox with the given options; terminate all of them at the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> SandboxProcess:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.odd_api", *options],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return SandboxProcess(process.stdout.readline().strip())

    try:
        yield begin
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=TIMEOUT)


@contextmanager
def killed_on_exit(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill a process at the end of the block, if it still runs."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)
