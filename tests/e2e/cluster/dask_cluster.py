"""A Dask scheduler and workers as processes on this machine, which a test may kill."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flows.orchestration.processes import free_port
from tests.e2e.processes import TIMEOUT, Operator


@contextmanager
def dask(*arguments: str, environment: dict[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a Dask process during the block; its output goes to a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(TIMEOUT)


class Cluster:
    """Starts a scheduler and workers, which a test may kill."""

    def __init__(self, operator: Operator, stack: ExitStack) -> None:
        self._operator = operator
        self._stack = stack
        self._port = free_port()
        self._started = 0
        self.scheduler = f"tcp://127.0.0.1:{self._port}"

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        self._started += 1
        log = self._operator.folder / f"{arguments[0]}-{self._started}.log"
        environment = self._operator.environment(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="10s")
        return self._stack.enter_context(dask(*arguments, environment=environment, log=log))

    def start_scheduler(self) -> "subprocess.Popen[bytes]":
        return self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--dashboard-address", "127.0.0.1:0"
        )

    def start_worker(self) -> "subprocess.Popen[bytes]":
        return self._start(
            "dask_worker", self.scheduler, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1"
        )
