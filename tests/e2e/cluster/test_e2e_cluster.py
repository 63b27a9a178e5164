"""A Dask cluster of processes: whatever dies or is wrong, the snapshot equals the API's data in the end."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.sandbox.settings import RateLimit
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, ROOT, TIMEOUT, Operator, killed_on_exit, start_sandboxes, wait_until
from tests.prefect_api import free_port


class Cluster:
    """Starts a scheduler and workers, which a test may kill."""

    def __init__(self, operator: Operator, stack: ExitStack) -> None:
        self._operator = operator
        self._stack = stack
        self._port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = f"tcp://127.0.0.1:{self._port}"

    def _start(self, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
        log = self._operator.folder / f"{arguments[0]}-{len(self.processes)}.log"
        environment = self._operator.environment(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="10s", **env)
        command = [sys.executable, "-m", f"distributed.cli.{arguments[0]}", *arguments[1:]]
        output = self._stack.enter_context(log.open("wb"))
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        self._stack.callback(process.wait, TIMEOUT)
        self._stack.callback(process.kill)
        self.processes.append(process)
        sign = "Scheduler at:" if arguments[0] == "dask_scheduler" else "Registered to:"
        wait_until(lambda: sign in log.read_text() or process.poll() is not None, f"{arguments[0]} to start")
        return process

    def start_scheduler(self) -> "subprocess.Popen[bytes]":
        return self._start(
            "dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port), "--dashboard-address", "127.0.0.1:0"
        )

    def start_worker(self, patch: str = "", **env: str) -> "subprocess.Popen[bytes]":
        """Start a worker. `patch` is Python code that it runs first, which may change the module `scale`."""
        preload = self._operator.folder / f"patch-{len(self.processes)}.py"
        preload.write_text(f"from flows import scale\n{patch}\n", encoding="utf-8")
        options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1", "--preload", str(preload))
        return self._start("dask_worker", self.scheduler, *options, **env)


pytestmark = pytest.mark.e2e

# A run that does not wait for workers for a minute.
_PREPARE = "from flows.process import prepare_process; prepare_process()"
_RUN = ("-c", f"{_PREPARE}; from flows.cli.__main__ import run; from flows import scale; scale.NO_WORKERS = 3.0; run()")

# The most requests of the tasks of a worker: one runs, and one is next.
_OF_A_WORKER = 2 * 2


@pytest.fixture(scope="module")
def seventy() -> Iterator[Api]:
    """A sandbox with accounts for many tasks."""
    with start_sandboxes() as begin:
        yield begin(accounts=70, posts=40, seed=5)


@pytest.fixture
def many(seventy: Api) -> Iterator[Api]:
    seventy.requests.clear()
    yield seventy
    seventy.script.replace()
    seventy.limiter.configure({"selected_account": None})


@pytest.fixture
def there(tmp_path: Path, many: Api) -> Operator:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    environment = {"GRAMHOUSE_BASE_URL": many.url, "GRAMHOUSE_API_KEY": KEY}
    return Operator(folder, {**environment, "GRAMHOUSE_PAGE_SIZE": "10", "GRAMHOUSE_CONCURRENCY": "2"})


@pytest.fixture
def cluster(there: Operator) -> Iterator[Cluster]:
    with ExitStack() as stack:
        found = Cluster(there, stack)
        there.env["GRAMHOUSE_SCHEDULER"] = found.scheduler
        found.start_scheduler()
        yield found


def _during_a_run(there: Operator, many: Api, fault: Callable[[subprocess.Popen[str]], None]) -> tuple[int, str]:
    """Run a sync, and cause a fault in the middle of it; return the exit code and the output."""
    with killed_on_exit(there.start_python(*_RUN, "sync", env={})) as process:
        wait_until(lambda: len(many.requests) >= 120 or process.poll() is not None, "the middle of the run")
        fault(process)
        out, err = process.communicate(timeout=TIMEOUT)
    assert "Traceback" not in out + err, err
    return process.returncode, out + err


def _repeated(many: Api) -> int:
    answered = [one for one in many.requests if one.status != 429]
    asked = [(one.account_id, one.surface, one.cursor) for one in answered]
    return len(asked) - len(set(asked))


@pytest.mark.long
def test_a_killed_worker_is_replaced_and_no_clock_of_a_worker_is_read(
    there: Operator, many: Api, cluster: Cluster
) -> None:
    broken_clock = "scale.SystemClock.now = None"
    first, _ = cluster.start_worker(broken_clock), cluster.start_worker(broken_clock)
    # Accounts are limited, so that some wait, and the worker dies while others are limited.
    many.limiter.configure({"selected_account": RateLimit(4, 3)})
    code, output = _during_a_run(there, many, lambda _: first.kill())
    assert code == 0, output
    assert_matches_api(there.ask, many)
    assert _repeated(many) <= _OF_A_WORKER
    # Only after a 429 that had not left the worker when it died.
    assert many.early <= _OF_A_WORKER
    packed = [path for path in there.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert packed == []


# What a worker runs first, what happens in the middle of the run, and with which code and line it ends.
ENDED: dict[str, tuple[str, Callable[[Cluster, subprocess.Popen[str]], None], int, str]] = {
    "the run is killed": ("", lambda _, run: run.kill(), -signal.SIGKILL, ""),
    "the scheduler dies": (
        "",
        lambda there, _: there.processes[0].kill(),
        1,
        "a Dask worker, or the scheduler, failed",
    ),
    "all workers die": ("", lambda there, _: there.processes[1].kill(), 1, "Only 0/1 workers arrived"),
    "a worker fails": ("scale.make_client = None", lambda *_: None, 1, "failed (TypeError"),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", ENDED)
def test_a_run_that_ends_with_or_without_its_cluster_is_resumed_here(
    there: Operator, many: Api, cluster: Cluster, fault: str
) -> None:
    patch, cause, code, why = ENDED[fault]
    cluster.start_worker(patch)
    ended, output = _during_a_run(there, many, lambda run: cause(cluster, run))
    assert ended == code
    lines = [line for line in output.splitlines() if line.startswith("✖")]
    assert [why in line and "Saved pages are kept. Fix: " in line for line in lines] == [True] * (code == 1)
    del there.env["GRAMHOUSE_SCHEDULER"]
    report = there.sync()
    assert (report["state"], report["media"]["removed"]) == ("complete", 0)
    assert_matches_api(there.ask, many)
    assert _repeated(many) <= 3 * _OF_A_WORKER


# Code that a worker runs first, its environment, and why the run refuses it.
REFUSED: dict[str, tuple[str, dict[str, str], str]] = {
    "another version": ("scale.release = lambda: '0.1.0'", {}, "has gramhouse 0.1.0, Python "),
    "another key": ("", {"GRAMHOUSE_API_KEY": "another-key"}, ", an API key with the fingerprint"),
    "no key": ("", {"GRAMHOUSE_API_KEY": ""}, "No API key. Fix: "),
}


@pytest.mark.long
@pytest.mark.parametrize("reason", REFUSED)
def test_a_worker_that_cannot_scan_for_the_run_is_refused_by_name(
    there: Operator, many: Api, cluster: Cluster, reason: str
) -> None:
    patch, env, why = REFUSED[reason]
    cluster.start_worker(patch, **env)
    refused = there.run("sync", code=2).stderr
    [line] = [line for line in refused.splitlines() if line.startswith("✖")]
    assert why in line
    assert "tcp://127.0.0.1:" in line
    assert "Fix: " in line
    assert "another-key" not in refused
    assert many.requests == []


@pytest.mark.long
def test_workers_of_this_machine_need_no_scheduler_and_end_with_ctrl_c(there: Operator, many: Api) -> None:
    # A terminal sends the signal to every process of the group.
    with subprocess.Popen(
        [sys.executable, *_RUN, "sync", "--workers", "2"],
        env=there.environment(),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until(lambda: len(many.requests) >= 100, "the workers to be in the middle of it")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGINT
    assert not {"Traceback", "Unclosed"} & {*err.split()}
    assert "run the same command to resume" in err
    requests = len(many.requests)
    assert there.sync()["state"] == "complete"
    assert_matches_api(there.ask, many)
    assert len(many.requests) > requests
