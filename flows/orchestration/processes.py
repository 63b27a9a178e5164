"""The first import of Prefect, which reads its settings then, and what the processes of `up` and its runs need."""

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from flows.config.environment import set_environment
from flows.config.errors import SettingsError
from flows.reporting.progress import notices
from models.runs import one_line

# The path at which the server shows the HTML report.
REPORT_PATH = "/gramhouse/report"

_PAUSE = 0.2
_GRACE = 10.0

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


def import_prefect(changes: Mapping[str, str]) -> None:
    """Import Prefect with these environment variables. Call it before modules that import Prefect.

    Raises SettingsError with one line if its settings cannot be read: environment variables, profiles, prefect.toml.
    """
    set_environment(changes)
    try:
        import prefect.main  # noqa: F401, PLC0415 - it is imported here for the first time
    except Exception as error:
        cause = str(error) or type(error).__name__
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            # The class APISettings has the settings PREFECT_API_...
            cause = f"{error.title}, {' '.join(map(str, first['loc']))}: {first['msg']}"
        raise SettingsError(
            f"Prefect's settings cannot be read: {one_line(cause, 200).rstrip('.')}. Fix: correct the variable"
            " PREFECT_..., or the file that sets it, such as profiles.toml in Prefect's home."
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


def end_with_parent() -> None:
    """End this process soon after the one that started it, even if that is killed: a run holds the warehouse's lock."""
    parent = os.getppid()

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        for number in (signal.SIGTERM, signal.SIGKILL):
            os.kill(os.getpid(), number)
            time.sleep(_GRACE)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()
