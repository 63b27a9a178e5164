"""Servers that a command brings up beside itself, on this machine alone, and takes down again."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from flows.settings import environment

_PATIENCE = 90.0
_GRACE = 10.0
_PAUSE = 0.2

# Prefect would otherwise call home now and then.
PREFECT_QUIET = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}


class NeighbourError(Exception):
    """A server that did not come up; the last lines of its log say why."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A server that is coming up: `health` is the path that answers 200 once it has."""

    name: str
    port: int
    health: str
    log: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait until it answers; raises NeighbourError when it ended, or takes too long."""
        until = time.monotonic() + _PATIENCE
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                last = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
                message = f"{self.name} did not come up; {self.log} says: " + " / ".join(last)
                raise NeighbourError(message)
            time.sleep(_PAUSE)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        try:
            connection.request("GET", self.health)
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """End it and what it started: politely, then not."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(_GRACE)


@contextmanager
def neighbour(
    name: str, arguments: list[str], *, port: int, health: str, log: Path, env: Mapping[str, str]
) -> Iterator[Neighbour]:
    """Start `python -m ...`, writing to a log file, in a session of its own; stop it when the block ends.

    Does not wait for it to come up, so that several can come up together.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment(**env),
            start_new_session=True,
        )
    started = Neighbour(name, port, health, log, process)
    try:
        yield started
    finally:
        started.stop()


def sandbox(folder: Path, port: int, *options: str) -> AbstractContextManager[Neighbour]:
    """Start the sandbox on a port."""
    arguments = ["flows.cli", "sandbox", "--port", str(port), *options]
    return neighbour("the sandbox", arguments, port=port, health="/openapi.json", log=folder / "sandbox.log", env={})


def prefect(folder: Path, port: int) -> AbstractContextManager[Neighbour]:
    """Start a Prefect server on a port, with all it keeps in a folder."""
    env = {
        **PREFECT_QUIET,
        "PREFECT_HOME": str(folder.resolve()),
        "PREFECT_SERVER_UI_API_URL": f"http://127.0.0.1:{port}/api",
    }
    arguments = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    return neighbour(
        "the Prefect server", arguments, port=port, health="/api/health", log=folder / "server.log", env=env
    )
