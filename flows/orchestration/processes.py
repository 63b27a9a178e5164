"""The first import of Prefect, which reads its settings, and the processes of `up`: its server, and runs."""

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stderr, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from pydantic import ValidationError

from flows.config.errors import ProcessError, SettingsError
from flows.config.prefect_environment import environment, set_environment
from flows.reporting.progress import notices
from models.text import one_line

# The path at which the server shows the HTML report.
REPORT_PATH = "/gramhouse/report"

_PATIENCE = 180.0
_PAUSE = 0.2
_GRACE = 10.0

# How long Prefect's server keeps its history: 30 days, unless the environment says otherwise.
HISTORY = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs,orphans",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 24 * 3600),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P30D",
}

# Flow runs also need these if another machine has the server.
PREFECT_CLIENT = {
    "DO_NOT_TRACK": "1",
    # Without an address, Prefect's client would start a server of its own, which takes 20 s.
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    # In seconds. A killed run is noticed after six of them (deployments/automations.yaml).
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # By default, its log lines have a time but no date.
    "PREFECT_LOGGING_FORMATTERS_STANDARD_DATEFMT": "%Y-%m-%d %H:%M:%S",
    # Notices are in the log of their flow run. Without one, only the terminal has them.
    "PREFECT_LOGGING_EXTRA_LOGGERS": notices.name,
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def import_prefect(changes: Mapping[str, str] | None = None) -> None:
    """Import Prefect with these environment variables. Call it before modules that import Prefect.

    Raises SettingsError with one line if its settings cannot be read: environment variables, profiles, prefect.toml.
    """
    set_environment(changes or {})
    said = io.StringIO()
    try:
        # Prefect also writes the error to standard error, in several lines.
        with redirect_stderr(said):
            import prefect.context  # noqa: PLC0415 - it is imported here for the first time
        sys.stderr.write(said.getvalue())
        import prefect.main  # noqa: F401, PLC0415
    except Exception as error:
        cause = str(error) or type(error).__name__
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            # The class APISettings has the settings PREFECT_API_...
            cause = f"{error.title}, {' '.join(map(str, first['loc']))}: {first['msg']}"
        raise SettingsError(
            f"Prefect's settings cannot be read: {one_line(cause, 200).rstrip('.')}. Fix: correct the variable"
            " PREFECT_..., or the file that sets it: prefect.toml, pyproject.toml or .env here, or profiles.toml in"
            " Prefect's home."
        ) from error


def local_prefect(home: Path, port: int) -> dict[str, str]:
    """Return the environment of a Prefect server on this machine, and of its clients; without it, telemetry is sent."""
    return {
        "PREFECT_HOME": str(home.resolve()),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # SQLite has one writer at a time. A write that times out loses an event, and so a notification.
        "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
        **PREFECT_CLIENT,
    }


def free_port(wanted: int = 0) -> int:
    """Return a port of 127.0.0.1 that is free: the wanted one, or any for 0. Raises OSError if it is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", wanted))
        return int(probe.getsockname()[1])


def answers(port: int, path: str) -> bool:
    """Return whether a server on this machine responds with status 200."""
    with suppress(OSError, HTTPException), closing(HTTPConnection("127.0.0.1", port, timeout=2)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status == HTTPStatus.OK
    return False


def private(folder: Path) -> None:
    """Create a folder that only its owner can read: Prefect's database contains secrets and the key to them."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o700)


def end_after(wait: Callable[[], object]) -> None:
    """End this process with SIGTERM when `wait`, which is called on a thread, returns, and soon with SIGKILL."""

    def end() -> None:
        wait()
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(os.getpid(), number)
            time.sleep(_GRACE)

    threading.Thread(target=end, name="end-after", daemon=True).start()


def end_with_parent() -> None:
    """End this process soon after the one that started it, even if that is killed: a run holds the warehouse's lock."""
    parent = os.getppid()

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)

    end_after(wait)


def _fail(what: str, log: Path) -> ProcessError:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    output = " / ".join([line.strip() for line in lines if line.strip()][-3:]) or "nothing"
    return ProcessError(f"Prefect's server {what}. The end of {log}: {output}")


@contextmanager
def prefect(home: Path, port: int, report: Path) -> Iterator[None]:
    """Run a Prefect server on a port, with its data in a folder, during the block; it also shows the HTML report.

    It ends with this process, even if this process is killed. Raises ProcessError, with the end of its log, if it does
    not start, and if it has ended when the block fails.
    """
    private(home)
    log = home / "server.log"
    with suppress(FileNotFoundError):
        # Kept, so that the cause of a crash can still be found after a restart.
        log.replace(log.with_name(log.name + ".old"))
    server = ("uvicorn", "--factory", "flows.orchestration.server:app", "--host", "127.0.0.1", "--port", str(port))
    with (
        log.open("wb") as file,
        subprocess.Popen(  # noqa: S603 - our own program
            # Open pages of the UI would keep it from ending.
            [sys.executable, "-m", *server, "--timeout-graceful-shutdown", "3", "--log-level", "warning"],
            env={**HISTORY, **environment(**local_prefect(home, port), GRAMHOUSE_REPORT=str(report.resolve()))},
            # It ends when this pipe is closed, which the end of the block does.
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            # Ctrl-C must not end it before the flow runs.
            start_new_session=True,
        ) as process,
    ):
        until = time.monotonic() + _PATIENCE
        while not answers(port, "/api/health"):
            if process.poll() is not None or time.monotonic() > until:
                raise _fail("did not start", log)
            time.sleep(_PAUSE)
        try:
            yield
        except Exception as error:
            if process.poll() is None:
                raise
            raise _fail("no longer answers", log) from error
