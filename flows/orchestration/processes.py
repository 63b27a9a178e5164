"""Processes that a command brings up beside itself, on this machine alone, and takes down again."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from flows.config.settings import environment, no_proxy

_PATIENCE = 90.0
_GRACE = 10.0
_PAUSE = 0.2
_LAST_LINES = 3

# How Python ends a traceback.
_ERROR = re.compile(r"[\w.]+(Error|Exception): \S")

# Prefect would otherwise call home now and then, and a killed run be noticed only after many minutes.
PREFECT_QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # By default its lines in a log have a time and no date.
    "PREFECT_LOGGING_FORMATTERS_STANDARD_DATEFMT": "%Y-%m-%d %H:%M:%S",
}


class ProcessError(Exception):
    """A process that did not start, or went away; the last lines of its log say why."""


class GivenUp(Exception):  # noqa: N818 - cancelled by a person, and no error
    """The wait was cancelled by a person."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_is_free(port: int) -> bool:
    """Say whether a port of 127.0.0.1 could be served."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers(port: int, path: str) -> bool:
    """Say whether a server on this machine answers 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def relevant_lines(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a log that say most: the last error that has words, or else the last few lines."""
    errors = [line for line in lines if _ERROR.match(line)]
    return errors[-1:] or [line for line in lines if line][-_LAST_LINES:]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process that is coming up: `is_up` says whether it has, `grace` is how long it may take to end."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]
    is_up: Callable[[], bool]
    grace: float = _GRACE

    def wait(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until it is up; raises NeighbourError when it ended, or takes too long, and GivenUp."""
        until = time.monotonic() + _PATIENCE
        while not self.is_up():
            if given_up():
                raise GivenUp
            if self.process.poll() is not None or time.monotonic() > until:
                what = "did not start"
                raise self._failure_group(what)
            time.sleep(_PAUSE)

    def ended_error(self) -> ProcessError:
        """Return what to raise when it is gone, with the last lines of its log."""
        return self._failure_group(f"ended with code {self.process.returncode}")

    def _failure_group(self, what: str) -> ProcessError:
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        output = " / ".join(relevant_lines(lines)) or "nothing"
        return ProcessError(f"{self.name} {what}; {self.log} says: {output}")

    def stop(self) -> None:
        """End it, politely at first, and what it started, which may have outlived it."""
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(self.grace)
        with suppress(ProcessLookupError):
            if self.process.poll() is not None:
                self._stop_orphans()
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _stop_orphans(self) -> None:
        until = time.monotonic() + _GRACE
        os.killpg(self.process.pid, signal.SIGTERM)
        while time.monotonic() < until:
            os.killpg(self.process.pid, 0)
            time.sleep(_PAUSE)


@contextmanager
def process(
    name: str,
    arguments: Sequence[str],
    *,
    is_up: Callable[[], bool],
    log: Path,
    env: Mapping[str, str],
    grace: float = _GRACE,
    holds: Sequence[int] = (),
) -> Iterator[tuple[ChildProcess, int]]:
    """Start `python -m ...`, writing to a log file, in a session of its own; stop it when the block ends.

    It watches its parents: it ends, too, when all are gone that hold the yielded descriptor, this process and the
    processes that are given it in `holds`. Does not wait for it to come up, so that several can come up together.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        parent_watch, hand = os.pipe()
        stack.callback(os.close, hand)
        with suppress(FileNotFoundError):
            # Kept, so that the cause of a crash can still be read after a restart.
            log.replace(log.with_name(log.name + ".old"))
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "flows.orchestration.parent_watch", str(parent_watch), *arguments],
                stdout=file,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                env=environment(**env),
                start_new_session=True,
                pass_fds=(parent_watch, *holds),
            )
        os.close(parent_watch)
        started = ChildProcess(name, log, process, is_up, grace)
        stack.callback(started.stop)
        yield started, hand


@contextmanager
def _server(
    name: str, arguments: list[str], *, port: int, health: str, log: Path, env: Mapping[str, str]
) -> Iterator[ChildProcess]:
    with process(name, arguments, is_up=lambda: answers(port, health), log=log, env=env) as (started, _):
        yield started


def sandbox(folder: Path, port: int, *options: str) -> AbstractContextManager[ChildProcess]:
    """Start the sandbox on a port."""
    arguments = ["flows.cli", "sandbox", "--port", str(port), *options]
    return _server("the sandbox", arguments, port=port, health="/openapi.json", log=folder / "sandbox.log", env={})


def private(folder: Path) -> None:
    """Make a folder that only its owner looks into: Prefect's database holds secrets, and the key to them."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o700)


def prefect_environment(folder: Path, port: int) -> dict[str, str]:
    """Return the environment of a Prefect server that keeps its data in a folder and makes no outside requests."""
    return {
        **PREFECT_QUIET,
        "NO_PROXY": no_proxy(),
        "PREFECT_HOME": str(folder.resolve()),
        # It has no login, and by default answers every web page that a browser on this machine shows.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://127.0.0.1:{port},http://localhost:{port}",
        # SQLite has one writer at a time. A write that times out loses an event, and so a notification.
        "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
        "PREFECT_SERVER_UI_API_URL": f"http://127.0.0.1:{port}/api",
    }


def prefect_arguments(port: int, report: Path | None = None) -> list[str]:
    """Return how a Prefect server that schedules, and shows the HTML report, is started, after `python -m`."""
    shown = [] if report is None else ["--report", str(report.resolve())]
    return ["flows.orchestration.prefect_server", *shown, "server", "start", "--host", "127.0.0.1", "--port", str(port)]


def prefect(folder: Path, port: int) -> AbstractContextManager[ChildProcess]:
    """Start a Prefect server on a port, with all it keeps in a folder."""
    private(folder)
    env = prefect_environment(folder, port)
    log = folder / "server.log"
    return _server("the Prefect server", prefect_arguments(port), port=port, health="/api/health", log=log, env=env)
