from pathlib import Path

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import SandboxSettings
from tests.handoff.days import snapshot_of


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return snapshot_of(tmp_path_factory.mktemp("handoff"), Sandbox(SandboxSettings(accounts=8, posts=20)), range(3))
