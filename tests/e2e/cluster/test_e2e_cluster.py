"""A Dask cluster of processes and an S3 server: after any kill, the snapshot equals the API's data."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli_runner import Cli
from tests.e2e.cluster.dask_cluster import Cluster
from tests.e2e.expected import assert_matches_api
from tests.e2e.processes import KEY, TIMEOUT, Operator, SandboxProcess, killed_on_exit, start_sandboxes, wait_until
from tests.store.s3 import s3_server

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture(scope="module")
def seventy() -> Iterator[SandboxProcess]:
    """A sandbox with accounts for three batches."""
    with start_sandboxes() as begin:
        yield begin("--accounts", "70", "--posts", "40", "--seed", "5")


@pytest.fixture
def many(seventy: SandboxProcess) -> SandboxProcess:
    seventy.forget()
    return seventy


@pytest.fixture
def there(tmp_path: Path, many: SandboxProcess, s3: dict[str, str]) -> Operator:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    store = {"GRAMHOUSE_STORE": f"s3://bucket/{tmp_path.name}", **s3}
    environment = {"GRAMHOUSE_BASE_URL": many.url, "GRAMHOUSE_API_KEY": KEY, "GRAMHOUSE_ENGINE": "dask", **store}
    return Operator(folder, {**environment, "GRAMHOUSE_PAGE_SIZE": "10", "GRAMHOUSE_CONCURRENCY": "2"})


@pytest.fixture
def cluster(there: Operator) -> Iterator[Cluster]:
    with ExitStack() as stack:
        found = Cluster(there, stack)
        there.env["GRAMHOUSE_SCHEDULER"] = found.scheduler
        yield found


def _asked(service: SandboxProcess, requests: int) -> Callable[[], bool]:
    return lambda: service.stats()["total"] >= requests


def test_a_worker_that_is_killed_is_replaced(there: Operator, many: SandboxProcess, cluster: Cluster) -> None:
    cluster.start_scheduler()
    first, _ = cluster.start_worker(), cluster.start_worker()
    with killed_on_exit(there.start("sync", "--json")) as process:
        wait_until(_asked(many, 120), "the workers to be in the middle of it")
        first.kill()
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, out + err
    assert "Traceback" not in out + err
    assert_matches_api(there, many)
    requests = len(many.requests())
    different = len({(one["account_id"], one["surface"], one["cursor"]) for one in many.requests()})
    # Pages that the batch had not written to its log: up to 100, and those in flight.
    assert requests - different <= 100 + 4 * 2


@pytest.mark.long
def test_a_killed_run_is_taken_over_by_the_next(there: Operator, many: SandboxProcess, cluster: Cluster) -> None:
    cluster.start_scheduler()
    cluster.start_worker()
    with killed_on_exit(there.start("sync", "--json")) as process:
        wait_until(_asked(many, 120), "the worker to be in the middle of it")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    assert there.sync()["state"] == "complete"
    assert_matches_api(there, many)


@pytest.mark.long
def test_a_local_run_merges_pages_of_a_killed_cluster_run(
    there: Operator, many: SandboxProcess, cluster: Cluster
) -> None:
    cluster.start_scheduler()
    worker = cluster.start_worker()
    with killed_on_exit(there.start("sync", "--json")) as process:
        wait_until(_asked(many, 120), "the worker to be in the middle of it")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    worker.kill()
    worker.wait(TIMEOUT)
    alone = there.run("sync", GRAMHOUSE_ENGINE="local")
    assert "Merging what run 1 left in the store" in alone.stdout + alone.stderr
    assert_matches_api(there, many)
    cluster.start_worker()
    assert there.sync()["media"]["removed"] == 0
    assert_matches_api(there, many)


@pytest.mark.long
def test_a_run_survives_a_restart_of_the_scheduler(there: Operator, many: SandboxProcess, cluster: Cluster) -> None:
    scheduler = cluster.start_scheduler()
    cluster.start_worker()
    with killed_on_exit(there.start("sync", "--json")) as process:
        wait_until(_asked(many, 120), "the worker to be in the middle of it")
        scheduler.kill()
        scheduler.wait(TIMEOUT)
        cluster.start_scheduler()
        cluster.start_worker()
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, out + err
    assert "Traceback" not in out + err
    assert_matches_api(there, many)


@pytest.mark.long
def test_a_worker_that_hangs_is_replaced_and_shut_out(there: Operator, many: SandboxProcess, cluster: Cluster) -> None:
    cluster.start_scheduler()
    first, _ = cluster.start_worker(), cluster.start_worker()
    with killed_on_exit(there.start("sync", "--json")) as process:
        wait_until(_asked(many, 100), "the workers to be in the middle of it")
        first.send_signal(signal.SIGSTOP)
        out, err = process.communicate(timeout=TIMEOUT)
        first.send_signal(signal.SIGCONT)
    assert process.returncode == 0, out + err
    assert_matches_api(there, many)
    before = many.stats()["total"]
    wait_until(lambda: first.poll() is not None or many.stats()["total"] == before, "the worker to stop")
    assert there.sync()["media"]["added"] == 0
    assert_matches_api(there, many)


@pytest.mark.parametrize(
    ("arguments", "scheduler", "why"),
    [
        ((), "tcp://10.0.0.1:8786", "needs TLS"),
        ((), "scheduler:8786", "not the address of a Dask scheduler"),
        (("--max-requests", "5"), "tcp://127.0.0.1:8786", "leave it out"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: tuple[str, ...],
    scheduler: str,
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {"BASE_URL": "http://127.0.0.1:9", "API_KEY": KEY, "ENGINE": "dask", "SCHEDULER": scheduler}
    for name, value in {**environment, "STORE": str(tmp_path)}.items():
        monkeypatch.setenv(f"GRAMHOUSE_{name}", value)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    code, out, err = Cli(monkeypatch, capsys)("sync", *arguments)
    assert (code, out) == (2, "")
    assert why in err
    assert "Fix:" in err


@pytest.mark.long
def test_doctor_checks_the_store_and_the_workers_and_a_worker_needs_a_key(there: Operator, cluster: Cluster) -> None:
    missing = there.run("doctor", code=1)
    assert "does not answer" in missing.stdout
    assert "creates an object only once" in missing.stdout
    key, there.env["GRAMHOUSE_API_KEY"] = there.env.pop("GRAMHOUSE_API_KEY"), ""
    cluster.start_scheduler()
    cluster.start_worker()
    there.env["GRAMHOUSE_API_KEY"] = key
    log = there.folder / "dask_worker-2.log"
    wait_until(lambda: "Registered to" in log.read_text(), "the worker to be counted")
    assert "and has 1 worker" in there.run("doctor").stdout
    broken = there.run("doctor", code=1, AWS_ENDPOINT_URL="http://127.0.0.1:9", GRAMHOUSE_STORE="s3://other/store")
    assert "cannot be used" in broken.stdout
    assert "No API key" in there.run("sync", code=2).stderr


@pytest.mark.long
def test_workers_of_this_machine_need_no_scheduler_and_end_with_ctrl_c(there: Operator, many: SandboxProcess) -> None:
    del there.env["GRAMHOUSE_STORE"]
    # A terminal sends the signal to every process of the group.
    with subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "sync"],
        env=there.environment(),
        cwd=Path(__file__).parents[3],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until(_asked(many, 100), "the workers to be in the middle of it")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err
    assert "run the same command to resume" in err
    assert there.sync()["state"] == "complete"
    written = [path for path in (there.folder / "store").rglob("*") if path.is_file()]
    assert there.folder / "store" / "runs" / "00000002" / "end" in written
    assert not any(KEY.encode() in path.read_bytes() for path in written)
    assert_matches_api(there, many)
