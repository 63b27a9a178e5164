from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with in_thread(Sandbox(SandboxSettings(accounts=4, posts=5, seed=11))) as url:
        yield url


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Set the address of a sandbox, and its key."""
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", address)
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "sandbox-demo-key")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without tables, which is the snapshot of commands that query it."""
    path = tmp_path / "s.duckdb"
    duckdb.connect(str(path)).close()
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(path))
    return path
