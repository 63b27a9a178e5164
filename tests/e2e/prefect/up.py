"""`gramhouse up` as a process, and its Prefect server."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import psutil

from connectors.state.database import open_state_read_only, state_path
from connectors.state.runs import read_runs
from tests import operator
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.operator import COMMAND_LINE, ROOT, TIMEOUT, Operator
from tests.prefect_api import ask

STOP = "Stop with Ctrl-C"
SLOW = Rule(Action("delay", seconds=600), "media")

# Scheduled runs would disturb the tests, so they are due at least six hours from now, not in an hour of a time change.
ZONE = ZoneInfo("Europe/Berlin")
HOUR = 4 if 10 <= datetime.now(ZONE).hour < 22 else 16
NIGHTLY, DUE = f"15 {HOUR} * * *", f"45 {HOUR},{HOUR + 4} * * *"

# Prefect's server needs up to ten milliseconds for a response: polling without a pause would overload it.
wait_until = partial(operator.wait_until, pause=0.2)


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(TIMEOUT)
        return self.process.returncode

    def ask(self, path: str, document: object = None, method: str = "POST") -> Any:  # noqa: ANN401 - any JSON
        return ask(f"http://127.0.0.1:{self.port}/api", path, document, method)

    def deployments(self) -> dict[str, Any]:
        return {each["name"]: each for each in self.ask("/deployments/filter")}

    def trigger(self, deployment: str, **document: object) -> str:
        path = f"/deployments/{self.deployments()[deployment]['id']}/create_flow_run"
        # The key makes the retries of `ask` create one run.
        return str(self.ask(path, {"idempotency_key": str(uuid4()), **document})["id"])

    def run(self, run: str) -> Any:  # noqa: ANN401 - any JSON
        return self.ask(f"/flow_runs/{run}", method="GET")

    def ended(self, run: str) -> Any:  # noqa: ANN401 - any JSON
        over = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}
        wait_until(lambda: self.run(run)["state_type"] in over, "the run's end")
        return self.run(run)

    def flow_runs(self) -> list[int]:
        """Return the processes of running flow runs."""
        return [pid for pid in self.children() if b"prefect.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def kill(self) -> None:
        """Kill every process at the same time, as a power failure does."""
        assert self.process is not None
        kill(self.process.pid, *self.children())
        self.process.wait(TIMEOUT)

    def under_way(self, deployment: str, **document: object) -> str:
        """Start a run and wait until it scans media, which takes long; return its id."""
        wait_until(lambda: not self.flow_runs(), "the last run's process to end")
        self.service.script.replace([SLOW])
        self.service.requests.clear()
        run = self.trigger(deployment, **document)
        wait_until(lambda: len(self.service.requests) > 1, "a media scan")
        return run

    def runs_of(self, deployment: str) -> list[Any]:
        wanted = {"deployments": {"name": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
        return list(self.ask("/flow_runs/filter", wanted))

    def page_of(self, run: str) -> Any:  # noqa: ANN401 - any JSON
        """Return the page of a run, once it is there."""
        wanted = {"artifacts": {"key": {"any_": ["gramhouse-run"]}}, "flow_runs": {"id": {"any_": [run]}}}
        wait_until(lambda: len(self.ask("/artifacts/filter", wanted)) == 1, "a page")
        return self.ask("/artifacts/filter", wanted)[0]

    def states(self, run: str) -> list[str]:
        """Return the names of a run's states, from the first one in which it was started."""
        names = [state["name"] for state in self.ask(f"/flow_run_states/?flow_run_id={run}", method="GET")]
        return names[names.index("Running") :] if "Running" in names else []

    def last_run(self) -> dict[str, Any]:
        """Return the newest run's row of the state, which has runs that no snapshot has yet."""
        with open_state_read_only(state_path(self.operator.warehouse)) as state:
            assert state is not None
            [run] = state.read(read_runs, limit=1)
        return run

    def children(self) -> list[int]:
        """Return every process of this `up`, found by PREFECT_HOME in its environment."""
        there = psutil.process_iter(["pid", "environ"])
        return [one.pid for one in there if (one.info["environ"] or {}).get("PREFECT_HOME") == str(self.home)]
