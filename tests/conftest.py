"""Fixtures and hooks for all tests."""

import gc
import os
import shutil
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from flows.reporting.progress import notices
from tests.operator import bare, run_cli
from tests.snapshots import snapshot

# Fixtures of several folders.
__all__ = ["bare", "run_cli", "snapshot"]

# No deadline: a slow machine must not fail a test. Tests that look for hangs set their own timeouts.
settings.register_profile("gramhouse", deadline=None)
settings.load_profile("gramhouse")

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders in memory if it has space: on a disk, a fifth of the tests' time is waiting for fsync."""
    if config.getoption("basetemp") is None and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
    # As in the command line: with the default, Python looks for cycles during a twentieth of the time.
    gc.set_threshold(10_000)
    # A shell that starts tests in the background lets them ignore Ctrl-C, which the processes of tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)


ON_PREFECT = ("test_e2e_foreign_pages", "test_e2e_up")


def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than cores, because tests of real processes wait. Each worker collects all tests."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection while tests are collected, and freeze the tests: it took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class ByFile(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Gives a worker whole files, and one worker all that share a Prefect server, which takes 10 s of CPU to start."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "prefect" if Path(file).stem in ON_PREFECT else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByFile | None:
    """Schedule by file, if that is asked for."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The notices of the test, in order."""
    lines = list[str]()
    monkeypatch.setattr(notices, "handle", lambda record: lines.append(record.getMessage()))
    return lines
