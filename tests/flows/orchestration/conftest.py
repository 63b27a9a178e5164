import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, PREFECT_LOGGING_LEVEL, temporary_settings


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Ignore warnings about open connections: Prefect's clients leave theirs to the garbage collector.

    It may find them during any later test of this process.
    """
    for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"ignore:{kind}")


@pytest.fixture
def tracker(prefect_url: str, prefect_home: Path) -> Iterator[str]:
    """Make the Prefect client of this process use that server.

    The thread that sends Prefect's events is stopped afterwards: it pings the server with numbers from `random`, and
    Hypothesis fails a later test of this process if they change while it draws an example.
    """
    changes = {PREFECT_API_URL: prefect_url, PREFECT_HOME: prefect_home, PREFECT_LOGGING_LEVEL: "ERROR"}
    # Its threads change which warnings are errors.
    with temporary_settings(changes), patch.object(sys, "unraisablehook", lambda _: None):
        yield prefect_url
        EventsWorker.drain_all(at_exit=False)
        gc.collect()
