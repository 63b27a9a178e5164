"""`gramhouse up` without a server: refused options, and Prefect's settings."""

import os
import socket
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from prefect.settings import Settings

from connectors.warehouse.storage.holder import lock
from flows.cli.app import main
from flows.config.settings import load
from flows.orchestration.processes import HISTORY, free_port, local_prefect, port_is_free


@pytest.fixture
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "sandbox-demo-key")


def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["gramhouse", "up", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    message = capsys.readouterr()
    assert message.out == ""
    assert len(message.err.splitlines()) == 1, message.err
    return int(ended.value.code or 0), message.err


def test_up_requires_an_address_and_a_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, message = typed(monkeypatch, capsys)
    assert (code, "GRAMHOUSE_BASE_URL" in message) == (2, True)
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "http://127.0.0.1:9")
    code, message = typed(monkeypatch, capsys)
    assert (code, "GRAMHOUSE_API_KEY" in message) == (2, True)


@pytest.mark.usefixtures("_ready")
def test_a_port_in_use_is_reported_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not port_is_free(port)
        code, message = typed(monkeypatch, capsys, "--port", str(port))
    assert code == 2
    assert f"Port {port} is in use. Fix: choose another port with --port" in message
    assert port_is_free(free_port())


@pytest.mark.usefixtures("_ready")
def test_a_second_up_names_the_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    held = load().prefect_home / "up.lock"
    since = "2026-03-01T02:00:00+00:00"
    with lock(held, "gramhouse up at http://127.0.0.1:4200", since=since, pause=lambda _: None):
        code, message = typed(monkeypatch, capsys)
    assert code == 4
    assert f"gramhouse up at http://127.0.0.1:4200 (process {os.getpid()}, since {since})" in message
    assert f"kill {os.getpid()}" in message


def test_prefect_accepts_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    env = {**HISTORY, **local_prefect(tmp_path, 4321)}
    assert (env["PREFECT_SERVER_ANALYTICS_ENABLED"], env["DO_NOT_TRACK"]) == ("false", "1")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    prefect = Settings()
    server = prefect.server
    assert prefect.home == tmp_path
    assert (server.api.host, server.api.port) == ("127.0.0.1", 4321)
    assert server.ui.api_url == prefect.api.url == "http://127.0.0.1:4321/api"
    assert server.events.retention_period == timedelta(days=30)
    assert server.services.db_vacuum.retention_period == timedelta(days=30)
    assert server.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
