"""Child processes that a command starts on this machine, and stops again."""

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

# The last line of a Python traceback.
_ERROR = re.compile(r"[\w.]+(Error|Exception): \S")

# Without these, Prefect would send telemetry, and a killed run would only be noticed after many minutes.
PREFECT_QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # By default, its log lines have a time but no date.
    "PREFECT_LOGGING_FORMATTERS_STANDARD_DATEFMT": "%Y-%m-%d %H:%M:%S",
}


class ProcessError(Exception):
    """A process did not start, or ended unexpectedly; the message has the last lines of its log."""


class GivenUp(Exception):  # noqa: N818 - cancelled by the user, not an error
    """The wait was cancelled by the user."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that is currently free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_is_free(port: int) -> bool:
    """Return whether a port of 127.0.0.1 is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def answers(port: int, path: str) -> bool:
    """Return whether a server on this machine responds with status 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def relevant_lines(lines: Sequence[str]) -> Sequence[str]:
    """Return the most useful lines of a log: the last error with a message, or else the last few lines."""
    errors = [line for line in lines if _ERROR.match(line)]
    return errors[-1:] or [line for line in lines if line][-_LAST_LINES:]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A started process. `is_up` tests whether it is ready; `grace` is how long it may take to end, in seconds."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]
    is_up: Callable[[], bool]
    grace: float = _GRACE

    def wait(self, given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until it is up. Raises ProcessError if it ended or takes too long, and GivenUp."""
        until = time.monotonic() + _PATIENCE
        while not self.is_up():
            if given_up():
                raise GivenUp
            if self.process.poll() is not None or time.monotonic() > until:
                what = "did not start"
                raise self._error(what)
            time.sleep(_PAUSE)

    def ended_error(self) -> ProcessError:
        """Return the exception for a process that ended, with the last lines of its log."""
        return self._error(f"ended with code {self.process.returncode}")

    def _error(self, what: str) -> ProcessError:
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        output = " / ".join(relevant_lines(lines)) or "nothing"
        return ProcessError(f"{self.name} {what}. The end of {self.log}: {output}")

    def stop(self) -> None:
        """End the process, first with SIGTERM, then with SIGKILL, and all processes of its group."""
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
    """Start `python -m ...` in a separate session, writing to a log file; stop it when the block ends.

    The process also ends when all processes are gone that have the yielded descriptor open: this one, and those that
    inherit the descriptor through their `holds`. This does not wait until it is up, so that several processes can start
    concurrently.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        parent_watch, write_end = os.pipe()
        stack.callback(os.close, write_end)
        with suppress(FileNotFoundError):
            # The old log is kept, so that the cause of a crash can still be found after a restart.
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
        yield started, write_end


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
    """Create a folder that only its owner can read: Prefect's database contains secrets and the key to them."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o700)


def prefect_environment(folder: Path, port: int) -> dict[str, str]:
    """Return the environment of a Prefect server that keeps its data in a folder and makes no outside requests."""
    return {
        **PREFECT_QUIET,
        "NO_PROXY": no_proxy(),
        "PREFECT_HOME": str(folder.resolve()),
        # SQLite has one writer at a time. A write that times out loses an event, and so a notification.
        "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
        # Every user of this machine can reach it there, but no other machine.
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(port),
    }


def prefect_arguments(report: Path) -> list[str]:
    """Return the arguments after `python -m` that start a Prefect server, which also shows the HTML report."""
    return ["flows.orchestration.server", str(report.resolve())]


def prefect(folder: Path, port: int) -> AbstractContextManager[ChildProcess]:
    """Start a Prefect server on a port, with its data in a folder. The report is next to this folder."""
    private(folder)
    arguments = prefect_arguments(folder.parent / "report.html")
    env = prefect_environment(folder, port)
    log = folder / "server.log"
    return _server("the Prefect server", arguments, port=port, health="/api/health", log=log, env=env)
