"""`gramhouse up` without a server: refused options, and Prefect's settings."""

import os
import signal
import socket
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from prefect.server.schemas.schedules import CronSchedule
from prefect.settings import Settings

from connectors.warehouse.storage.holder import hold
from flows.cli.commands.serving import describe_environment
from flows.config.environment import HISTORY
from flows.config.setting_types import fires
from flows.config.settings import load
from flows.orchestration.processes import local_prefect
from tests.operator import Cli
from tests.prefect_api import free_port


@pytest.fixture
def _ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "sandbox-demo-key")


def refused(run_cli: Cli, *arguments: str, code: int = 2) -> str:
    """Return the line with which `gramhouse up` is refused."""
    found, out, err = run_cli("up", *arguments)
    [line] = err.splitlines()
    assert (found, out) == (code, "")
    return line


def test_up_requires_an_address_and_a_key(monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> None:
    assert "GRAMHOUSE_BASE_URL" in refused(run_cli)
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "http://127.0.0.1:9")
    assert "GRAMHOUSE_API_KEY" in refused(run_cli)


@pytest.mark.usefixtures("_ready")
def test_a_port_in_use_is_reported_with_the_fix(run_cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        message = refused(run_cli, "--port", str(port))
    assert f"Port {port} is in use. Fix: choose another port with --port" in message
    assert load().prefect_home.stat().st_mode & 0o777 == 0o700, "it has secrets, and the key to them"


@pytest.mark.usefixtures("_ready")
def test_a_second_up_names_the_first(run_cli: Cli) -> None:
    held = load().prefect_home / "up"
    since = "2026-03-01T02:00:00+00:00"
    with hold(held, "gramhouse up at http://127.0.0.1:4200", since=since, pause=lambda _: None):
        message = refused(run_cli, code=4)
    assert f"gramhouse up at http://127.0.0.1:4200 (process {os.getpid()}, since {since})" in message


@pytest.mark.usefixtures("_ready")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_starts_stops_it(
    monkeypatch: pytest.MonkeyPatch, run_cli: Cli, number: signal.Signals
) -> None:
    monkeypatch.setattr("flows.cli.commands.serving._check_key", lambda _: os.kill(os.getpid(), number))
    assert refused(run_cli, "--port", str(free_port()), code=0).endswith("Stopped.")


def test_runs_of_up_wait_six_hours_for_the_lock_unless_set_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_environment(load(), None)["GRAMHOUSE_BUSY_WAIT"] == str(6 * 3600)
    monkeypatch.setenv("GRAMHOUSE_BUSY_WAIT", "0")
    assert "GRAMHOUSE_BUSY_WAIT" not in describe_environment(load(), None)


@pytest.mark.anyio
@pytest.mark.parametrize("expression", ["15 2 * * *", "0 3 * * MON-FRI"])
@pytest.mark.parametrize("begin", [datetime(2026, 3, 28, 1, tzinfo=UTC), datetime(2026, 10, 24, 1, tzinfo=UTC)])
async def test_our_times_equal_those_of_prefect_except_in_a_skipped_hour(expression: str, begin: datetime) -> None:
    theirs = await CronSchedule(cron=expression, timezone="Europe/Berlin").get_dates(8, begin)
    ours = islice(fires(expression, "Europe/Berlin", begin), 8)
    apart = [abs(at.timestamp() - other.timestamp()) for at, other in zip(ours, theirs, strict=True)]
    assert max(apart) <= 3600
    assert sum(map(bool, apart)) <= 1


def test_prefect_accepts_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    env = {**HISTORY, **local_prefect(tmp_path, 4321)}
    assert (env["PREFECT_SERVER_ANALYTICS_ENABLED"], env["DO_NOT_TRACK"]) == ("false", "1")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    prefect = Settings()
    server = prefect.server
    assert prefect.home == tmp_path
    assert not server.ephemeral.enabled
    assert server.ui.api_url == prefect.api.url == "http://127.0.0.1:4321/api"
    assert server.events.retention_period == timedelta(days=30)
    assert server.services.db_vacuum.retention_period == timedelta(days=30)
    assert server.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
