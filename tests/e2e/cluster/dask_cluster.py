"""A Dask scheduler and workers as processes on this machine, which a test may kill."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.operator import TIMEOUT, Operator, wait_until
from tests.prefect_api import free_port


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
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = f"tcp://127.0.0.1:{self._port}"

    def _start(self, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
        log = self._operator.folder / f"{arguments[0]}-{len(self.processes)}.log"
        environment = self._operator.environment(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="10s", **env)
        process = self._stack.enter_context(dask(*arguments, environment=environment, log=log))
        self.processes.append(process)
        sign = "Scheduler at:" if arguments[0] == "dask_scheduler" else "Registered to:"
        wait_until(lambda: sign in log.read_text() or process.poll() is not None, f"{arguments[0]} to start")
        return process

    def start_scheduler(self) -> "subprocess.Popen[bytes]":
        return self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--dashboard-address", "127.0.0.1:0"
        )

    def start_worker(self, patch: str = "", **env: str) -> "subprocess.Popen[bytes]":
        """Start a worker. `patch` is Python code that it runs first, which may change the module `scale`."""
        preload = self._operator.folder / f"patch-{len(self.processes)}.py"
        preload.write_text(f"from flows import scale\n{patch}\n", encoding="utf-8")
        options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1", "--preload", str(preload))
        return self._start("dask_worker", self.scheduler, *options, **env)
