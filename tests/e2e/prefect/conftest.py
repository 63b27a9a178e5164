"""Prefect servers that run for all tests of a module, or of all modules, and `gramhouse up` as a process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import psutil
import pytest

from connectors.sandbox.settings import SandboxSettings
from tests import operator as everywhere
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.operator import COMMAND_LINE, KEY, PROXIES, ROOT, TIMEOUT, Operator
from tests.prefect_api import PUBLIC, ask, free_port

STOP = "Stop with Ctrl-C"

# Scheduled runs would disturb the tests, so they are due at least six hours from now, not in an hour of a time change.
ZONE = ZoneInfo("Europe/Berlin")
HOUR = 4 if 10 <= datetime.now(ZONE).hour < 22 else 16
NIGHTLY, DUE = f"15 {HOUR} * * *", f"45 {HOUR},{HOUR + 4} * * *"

# Prefect's server needs up to ten milliseconds for a response: polling without a pause would overload it.
wait_until = partial(everywhere.wait_until, pause=0.2)


@dataclass
class Up:
    """An operator, their port, and the process of `gramhouse up` if it runs."""

    operator: Operator
    service: Api
    port: int
    process: subprocess.Popen[str] | None = None
    shown: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.home, self.log = self.operator.folder / "prefect", self.operator.folder / "up.log"
        self.api = f"http://127.0.0.1:{self.port}/api"

    def begin(self) -> None:
        """Let the service answer at once, and start `gramhouse up` unless it runs.

        `shown` is its output up to the line that says how to stop it.
        """
        self.service.script.replace()
        if self.process is not None and self.process.poll() is None:
            return
        command = [sys.executable, *COMMAND_LINE, "up", "--port", str(self.port)]
        with self.log.open("wb") as log:
            env = self.operator.environment()
            self.process = process = subprocess.Popen(command, env=env, cwd=ROOT, stdout=log, stderr=log, text=True)
        wait_until(lambda: process.poll() is not None or STOP in self.log.read_text(), "gramhouse up")
        assert process.poll() is None, self.log.read_text()
        self.shown = self.log.read_text().partition(STOP)[0].splitlines()

    def end(self, number: signal.Signals, *more: int) -> int:
        """Send a signal to it and to more processes, at the same time; return its exit code."""
        assert self.process is not None
        for pid in (self.process.pid, *more):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return self.process.wait(TIMEOUT)

    def ask(self, path: str, document: object = None, method: str = "POST") -> Any:  # noqa: ANN401 - any JSON
        return ask(self.api, path, document, method)

    def deployments(self) -> dict[str, Any]:
        return {each["name"]: each for each in self.ask("/deployments/filter")}

    def trigger(self, deployment: str, **document: object) -> str:
        path = f"/deployments/{self.deployments()[deployment]['id']}/create_flow_run"
        # The key makes the retries of `ask` create one run.
        return str(self.ask(path, {"idempotency_key": str(uuid4()), **document})["id"])

    def run(self, run: str) -> Any:  # noqa: ANN401 - any JSON
        return self.ask(f"/flow_runs/{run}", method="GET")

    def set_state(self, run: str, state: str, *, force: bool = False) -> None:
        self.ask(f"/flow_runs/{run}/set_state", {"state": {"type": state}, "force": force})

    def ended(self, run: str) -> tuple[str, str]:
        """Return the name and the message of a run's last state."""
        over = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}
        wait_until(lambda: self.run(run)["state_type"] in over, "the run's end")
        state = self.run(run)["state"]
        return state["name"], state["message"]

    def flow_runs(self) -> list[int]:
        """Return the processes of running flow runs."""
        return [pid for pid in self.children() if b"prefect.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def under_way(self, deployment: str, **document: object) -> str:
        """Start a run and wait until it scans media, which takes long; return its id."""
        wait_until(lambda: not self.flow_runs(), "the last run's process to end")
        self.service.script.replace([Rule(Action("delay", seconds=600), "media")])
        self.service.requests.clear()
        run = self.trigger(deployment, **document)
        wait_until(lambda: len(self.service.requests) > 1, "a media scan")
        return run

    def runs_of(self, deployment: str) -> list[str]:
        """Return the ids of a deployment's runs, in the order in which they are due."""
        wanted = {"deployments": {"name": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
        return [each["id"] for each in self.ask("/flow_runs/filter", wanted)]

    def states(self, run: str) -> list[str]:
        """Return the names of a run's states, from the first one in which it was started."""
        names = [state["name"] for state in self.ask(f"/flow_run_states/?flow_run_id={run}", method="GET")]
        return names[names.index("Running") :] if "Running" in names else []

    def children(self) -> list[int]:
        """Return every process of this `up`, found by PREFECT_HOME in its environment."""
        there = psutil.process_iter(["pid", "environ"])
        return [one.pid for one in there if (one.info["environ"] or {}).get("PREFECT_HOME") == str(self.home)]


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`gramhouse up`, for all modules: its server takes 10 s of CPU to start. The UI is configured to be PUBLIC."""
    folder = tmp_path_factory.mktemp("up")
    with Api(SandboxSettings(accounts=4, posts=20, seed=11)).serve() as service:
        env = {
            **PROXIES,
            "GRAMHOUSE_BASE_URL": service.url,
            "GRAMHOUSE_API_KEY": KEY,
            "GRAMHOUSE_PREFECT_HOME": str(folder / "prefect"),
            "GRAMHOUSE_TIME_ZONE": ZONE.key,
            "GRAMHOUSE_NIGHTLY": NIGHTLY,
            "GRAMHOUSE_DUE": DUE,
            "PREFECT_SERVER_UI_API_URL": f"{PUBLIC}/api",
        }
        made = Up(Operator(folder, env), service, free_port())
        try:
            yield made
        finally:
            made.end(signal.SIGKILL, *made.children())


@pytest.fixture
def up(serving: Up) -> Up:
    """`gramhouse up`, as `serving`, started again if an earlier test has ended it."""
    serving.begin()
    return serving


@pytest.fixture
def operator(shell: Operator) -> Operator:
    """An operator whose commands are processes: a process reads Prefect's settings once."""
    return shell
