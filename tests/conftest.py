"""What holds for every test."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure: tests that look for hangs set a deadline of their own.
settings.register_profile("gramhouse", deadline=None)
settings.load_profile("gramhouse")

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders in memory where there is room: on a disk tests wait for its fsync a fifth of their time."""
    if config.getoption("basetemp") is None and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
