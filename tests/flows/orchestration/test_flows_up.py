"""`gramhouse up` without a server: refused options, Prefect's settings, and children that end with their parent."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from prefect.settings import Settings

from connectors.warehouse.storage.holder import Held, lock
from flows.cli.app import main
from flows.cli.commands import up
from flows.config.settings import load
from flows.orchestration.processes import GivenUp, ProcessError, free_port, port_is_free, process, relevant_lines

SECRET = "canary-pg-77"


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
def test_a_bad_schedule_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRAMHOUSE_STORIES", "often")
    code, message = typed(monkeypatch, capsys)
    assert code == 2
    assert "GRAMHOUSE_STORIES: it is not a valid cron expression" in message


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


def test_the_lock_names_no_process_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    with lock(path, "a", since="b", pause=lambda _: None):
        path.write_text("{")
        with pytest.raises(Held, match="another gramhouse"), lock(path, "c", since="d", pause=lambda _: None):
            raise AssertionError


def test_prefect_is_configured_with_folders_and_retention_and_without_telemetry(tmp_path: Path) -> None:
    settings = load(prefect_home=tmp_path, prefect_port=4321, keep_prefect=3, prefect_database=f"postgresql://{SECRET}")
    env = up.server_environment(settings)
    assert env["PREFECT_HOME"] == str(tmp_path)
    assert (env["PREFECT_SERVER_API_HOST"], env["PREFECT_SERVER_API_PORT"]) == ("127.0.0.1", "4321")
    assert (env["PREFECT_SERVER_ANALYTICS_ENABLED"], env["DO_NOT_TRACK"]) == ("false", "1")
    assert SECRET in env.pop("PREFECT_SERVER_DATABASE_CONNECTION_URL")
    assert SECRET not in repr(settings) + repr(env)


def test_prefect_accepts_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in up.server_environment(load(prefect_home=tmp_path, prefect_port=4321, keep_prefect=3)).items():
        monkeypatch.setenv(name, value)
    server = Settings().server
    assert server.ui.api_url == "http://127.0.0.1:4321/api"
    assert server.events.retention_period == timedelta(days=3)
    assert server.services.db_vacuum.retention_period == timedelta(days=3)
    assert server.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}


MODULE = """
import signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", child.pid, flush=True)
while "fall" not in sys.argv:
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Return whether a process is still running; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until_gone(*pids: int) -> None:
    end = time.monotonic() + 20
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < end, pids
        time.sleep(0.02)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "a_neighbour.py").write_text(MODULE)
    return tmp_path / "logs" / "process.log"


@contextmanager
def started(log: Path, *arguments: str, grace: float = 5) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    env = {"PYTHONPATH": os.pathsep.join((str(log.parents[1]), str(Path(__file__).parents[3])))}

    def is_up() -> bool:
        return b"up" in log.read_bytes()

    with process("It", ["a_neighbour", *arguments], is_up=is_up, log=log, env=env, grace=grace) as (it, _):
        it.wait()
        yield it.process, int(log.read_text().split()[1])


@pytest.mark.parametrize("how", ["", "stubborn", "fall"])
def test_a_child_process_ends_with_its_descendants(module: Path, how: str) -> None:
    with started(module, how, grace=0.5) as (process, child):
        assert alive(child)
        if how == "fall":
            process.wait()
    until_gone(process.pid, child)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("", []),
        ("a\n\nb\nc\nd\n", ["b", "c", "d"]),
        ("Traceback\nx.RefusedError: no\nx.OtherError: never\n(Background)\nstopped", ["x.OtherError: never"]),
    ],
)
def test_the_most_relevant_lines_of_a_log_are_reported(log: str, message: list[str]) -> None:
    assert relevant_lines(log.splitlines()) == message


def test_the_previous_log_is_kept(module: Path) -> None:
    with started(module) as (_, first):
        pass
    with started(module) as (_, second):
        pass
    assert str(first) in module.with_name("process.log.old").read_text()
    assert str(second) in module.read_text()


def test_a_process_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "it.log"
    with process("It", ["no_such_module"], is_up=lambda: False, log=log, env={}) as (it, _):
        with pytest.raises(ProcessError) as raised:
            it.wait()
        assert str(raised.value).startswith(f"It did not start. The end of {log}: ")
        assert "no_such_module" in str(raised.value)
        with pytest.raises(GivenUp):
            it.wait(lambda: True)


STARTER = """
import sys
from pathlib import Path
from tests.flows.orchestration.test_flows_up import started
with started(Path(sys.argv[1]), "stubborn" if "stubborn" in sys.argv else "") as (process, child):
    print(process.pid, child, flush=True)
    sys.stdin.read()
"""


def test_a_child_process_ends_when_its_parent_is_killed(module: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(module)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        process, child = map(int, starter.stdout.readline().split())
        assert alive(process)
        starter.send_signal(signal.SIGKILL)
    until_gone(process)
    os.kill(child, signal.SIGKILL)
