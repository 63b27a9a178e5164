"""A Dask cluster of processes: whatever dies or is wrong, the snapshot equals the API's data in the end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise

import httpx
import psutil
import pytest
from distributed.comm.core import connect

from connectors.sandbox.settings import RateLimit, SandboxSettings
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, ROOT, TIMEOUT, Operator, killed_on_exit, wait_until
from tests.prefect_api import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.long]

# A run that does not wait for workers for a minute.
_PREPARE = "from flows.process import prepare_process; prepare_process()"
_RUN = ("-c", f"{_PREPARE}; from flows.cli.__main__ import run; from flows import scale; scale.NO_WORKERS = 3.0; run()")

# The most requests of the tasks of a worker: one runs, and one is next.
_OF_A_WORKER = 2 * 2


@pytest.fixture(scope="module")
def shared_sandbox() -> Iterator[Api]:
    """A sandbox with accounts for many tasks."""
    with Api(SandboxSettings(accounts=70, posts=40, seed=5)).serve() as service:
        yield service


@pytest.fixture
def there(shell: Operator) -> Operator:
    shell.folder.mkdir()
    shell.env |= {"GRAMHOUSE_PAGE_SIZE": "10", "GRAMHOUSE_CONCURRENCY": "2"}
    return shell


class Cluster:
    """A scheduler, the first of the processes, and workers, which a test may kill."""

    def __init__(self, there: Operator, stack: ExitStack) -> None:
        self._there, self._stack = there, stack
        self.processes: list[subprocess.Popen[bytes]] = []
        port = str(free_port())
        self.scheduler = there.env["GRAMHOUSE_SCHEDULER"] = f"tcp://127.0.0.1:{port}"
        options = ("--host", "127.0.0.1", "--port", port, "--dashboard-address", "127.0.0.1:0")
        self._start("dask_scheduler", *options, sign="Scheduler at:", env={})

    def _start(self, program: str, *arguments: str, sign: str, env: dict[str, str]) -> None:
        log = self._there.folder / f"{len(self.processes)}.log"
        environment = self._there.environment(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="10s", **env)
        command = [sys.executable, "-m", f"distributed.cli.{program}", *arguments]
        output = self._stack.enter_context(log.open("wb"))
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        self._stack.callback(process.wait, TIMEOUT)
        self._stack.callback(process.kill)
        self.processes.append(process)
        wait_until(lambda: sign in log.read_text() or process.poll() is not None, f"{program} to start")

    def start_worker(self, patch: str = "", **env: str) -> None:
        """Start a worker. `patch` is Python code that it runs first, which may change the module `scale`."""
        preload = self._there.folder / f"patch-{len(self.processes)}.py"
        preload.write_text(f"from flows import scale\n{patch}\n", encoding="utf-8")
        options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--host", "127.0.0.1", "--preload", str(preload))
        self._start("dask_worker", self.scheduler, *options, sign="Registered to:", env=env)


@pytest.fixture
def cluster(there: Operator) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(there, stack)


def _during_a_run(there: Operator, service: Api, fault: Callable[[subprocess.Popen[str]], object]) -> tuple[int, str]:
    """Run a sync, and cause a fault in the middle of it; return the exit code and the output."""
    with killed_on_exit(there.start_python(*_RUN, "sync", env={})) as process:
        wait_until(lambda: len(service.requests) >= 120 or process.poll() is not None, "the middle of the run")
        fault(process)
        out, err = process.communicate(timeout=TIMEOUT)
    assert "Traceback" not in out + err, err
    return process.returncode, out + err


def _early(service: Api) -> int:
    """Return how service requests came although the account's limit was not over: each of them is refused again."""
    statuses = defaultdict[str | None, list[int | None]](list)
    for one in service.requests:
        statuses[one.account_id].append(one.status)
    return sum(pair == (429, 429) for found in statuses.values() for pair in pairwise(found))


def _repeated(service: Api) -> int:
    asked = [(one.account_id, one.surface, one.cursor) for one in service.requests if one.status != 429]
    return len(asked) - len(set(asked))


def test_a_killed_worker_is_replaced_and_no_workers_clock_is_read(
    there: Operator, service: Api, cluster: Cluster
) -> None:
    for _ in range(2):
        cluster.start_worker("scale.SystemClock.now = None")
    # Accounts are limited, so that some wait, and the worker dies while others are limited.
    service.limiter.configure({"selected_account": RateLimit(4, 3)})
    code, output = _during_a_run(there, service, lambda _: cluster.processes[1].kill())
    assert code == 0, output
    assert_matches_api(there.ask, service)
    assert _repeated(service) <= _OF_A_WORKER
    # Only after a 429 that had not left the worker when it died.
    assert _early(service) <= _OF_A_WORKER
    packed = [path for path in there.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert packed == []


KEPT = "Saved pages are kept. Fix: "
Cause = Callable[[Cluster, subprocess.Popen[str]], object]
nothing: Cause = lambda *_: None  # noqa: E731

# What a worker runs first, its environment, what happens in the middle of the run, and the code and line of its end.
ENDED: dict[str, tuple[str, dict[str, str], Cause, int, list[str]]] = {
    "the run is killed": ("", {}, lambda _, run: run.kill(), -signal.SIGKILL, []),
    "the scheduler dies": (
        *("", {}, lambda there, _: there.processes[0].kill(), 1),
        ["a Dask worker, or the scheduler, failed", KEPT],
    ),
    "all workers die": ("", {}, lambda there, _: there.processes[1].kill(), 1, ["Only 0/1 workers arrived", KEPT]),
    "a worker fails": ("scale.make_client = None", {}, nothing, 1, ["failed (TypeError", KEPT]),
    "another version": ("scale.release = lambda: '0.1.0'", {}, nothing, 2, ["has gramhouse 0.1.0, Python "]),
    "another key": ("", {"GRAMHOUSE_API_KEY": "another-key"}, nothing, 2, [", an API key with the fingerprint"]),
    "no key": ("", {"GRAMHOUSE_API_KEY": ""}, nothing, 2, ["No API key. Fix: "]),
}


@pytest.mark.parametrize("fault", ENDED)
def test_a_run_that_ends_on_a_cluster_is_resumed_here(
    there: Operator, service: Api, cluster: Cluster, fault: str
) -> None:
    patch, env, cause, code, why = ENDED[fault]
    cluster.start_worker(patch, **env)
    ended, output = _during_a_run(there, service, lambda run: cause(cluster, run))
    assert ended == code, output
    lines = [line for line in output.splitlines() if line.startswith("✖")]
    assert [all(each in line for each in (*why, "Fix: ")) for line in lines] == [True] * bool(why)
    if code == 2:
        # A worker that cannot scan for the run is refused by its address, before the first request.
        assert "tcp://127.0.0.1:" in lines[0]
        assert "another-key" not in output
        assert service.requests == []
    del there.env["GRAMHOUSE_SCHEDULER"]
    report = there.sync()
    assert (report["state"], report["media"]["removed"]) == ("complete", 0)
    assert_matches_api(there.ask, service)
    assert _repeated(service) <= 3 * _OF_A_WORKER


def find_listening(process: psutil.Process) -> set[str]:
    """Return the addresses on which a process and its children accept connections."""
    found = set()
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.Error, OSError):
            listening = [one for one in each.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
            found |= {f"tcp://127.0.0.1:{one.laddr.port}" for one in listening}
    return found


async def lets_in(address: str) -> bool:
    """Return whether a Dask process talks to a client that has no credentials."""
    try:
        async with asyncio.timeout(5):
            comm = await connect(address)  # type: ignore[no-untyped-call]
            await comm.write({"op": "identity", "reply": True})
            return isinstance(await comm.read(), dict)
    except (OSError, TimeoutError):
        return False


def shows_pages(address: str) -> bool:
    """Return whether a Dask process shows its pages, which need no credentials."""
    with suppress(httpx.HTTPError), httpx.Client(base_url=address.replace("tcp:", "http:"), timeout=5) as client:
        return any(client.get(page).is_success for page in ("/metrics", "/health", "/info/main/workers.html"))
    return False


def test_workers_of_this_machine_let_in_no_other_user_and_end_with_ctrl_c(there: Operator, service: Api) -> None:
    service.script.replace([Rule(Action("delay", seconds=600), "media", nth=2)])
    # A terminal sends the signal to every process of the group.
    command = [sys.executable, *_RUN, "sync", "--workers", "2"]
    with subprocess.Popen(
        command, env=there.environment(), cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        # A page of the accounts, and two of each scan that has begun.
        wait_until(lambda: len(service.requests) > 8, "the workers to be in the middle of it")
        addresses = find_listening(psutil.Process(process.pid))
        open_to = [address for address in addresses if asyncio.run(lets_in(address)) or shows_pages(address)]
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
    service.script.replace()
    assert (bool(addresses), open_to) == (True, [])
    assert process.returncode == 128 + signal.SIGINT
    assert not {"Traceback", "Unclosed"} & {*err.split()}
    assert "run the same command to resume" in err
    requests = len(service.requests)
    assert there.sync()["state"] == "complete"
    assert_matches_api(there.ask, service)
    assert len(service.requests) > requests
