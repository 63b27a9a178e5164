"""A Dask cluster of processes and an S3 server: killed anywhere, the snapshot is what the service shows."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import KEY, PATIENCE, Operator, Service, assert_in_step, stopped, until
from tests.store.s3 import s3_server

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def many(serve: Callable[..., Service]) -> Service:
    """Accounts for three batches."""
    return serve("--accounts", "70", "--posts", "60", "--seed", "5")


@pytest.fixture
def there(tmp_path: Path, many: Service, s3: dict[str, str]) -> Operator:
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


def _asked(service: Service, requests: int) -> Callable[[], bool]:
    return lambda: service.stats()["total"] >= requests


def test_a_worker_that_is_killed_is_replaced(there: Operator, many: Service, cluster: Cluster) -> None:
    cluster.start_scheduler()
    first, _ = cluster.start_worker(), cluster.start_worker()
    with stopped(there.start("sync", "--json")) as process:
        until(_asked(many, 150), "the workers to be in the middle of it")
        first.kill()
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    assert "Traceback" not in out + err
    assert_in_step(there, many)
    requests = len(many.requests())
    different = len({(one["account_id"], one["surface"], one["cursor"]) for one in many.requests()})
    # What its batch had not written yet: up to 100 pages, and those in flight.
    assert requests - different <= 100 + 4 * 2


def test_a_killed_run_is_taken_over_by_the_next(there: Operator, many: Service, cluster: Cluster) -> None:
    cluster.start_scheduler()
    cluster.start_worker()
    with stopped(there.start("sync", "--json")) as process:
        until(_asked(many, 150), "the worker to be in the middle of it")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    assert there.sync()["state"] == "complete"
    assert_in_step(there, many)


def test_a_run_without_workers_merges_what_a_killed_one_left(there: Operator, many: Service, cluster: Cluster) -> None:
    cluster.start_scheduler()
    worker = cluster.start_worker()
    with stopped(there.start("sync", "--json")) as process:
        until(_asked(many, 150), "the worker to be in the middle of it")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    worker.kill()
    worker.wait(PATIENCE)
    alone = there.run("sync", GRAMHOUSE_ENGINE="local")
    assert "Merging what run 1 left in the store" in alone.stdout + alone.stderr
    assert_in_step(there, many)
    cluster.start_worker()
    assert there.sync()["media"]["removed"] == 0
    assert_in_step(there, many)


def test_a_scheduler_that_is_killed_and_comes_back(there: Operator, many: Service, cluster: Cluster) -> None:
    scheduler = cluster.start_scheduler()
    cluster.start_worker()
    with stopped(there.start("sync", "--json")) as process:
        until(_asked(many, 150), "the worker to be in the middle of it")
        scheduler.kill()
        scheduler.wait(PATIENCE)
        cluster.start_scheduler()
        cluster.start_worker()
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    assert "Traceback" not in out + err
    assert_in_step(there, many)


def test_a_worker_that_hangs_is_replaced_and_shut_out(there: Operator, many: Service, cluster: Cluster) -> None:
    cluster.start_scheduler()
    first, _ = cluster.start_worker(), cluster.start_worker()
    with stopped(there.start("sync", "--json")) as process:
        until(_asked(many, 100), "the workers to be in the middle of it")
        first.send_signal(signal.SIGSTOP)
        out, err = process.communicate(timeout=PATIENCE)
        first.send_signal(signal.SIGCONT)
    assert process.returncode == 0, out + err
    assert_in_step(there, many)
    before = many.stats()["total"]
    until(lambda: first.poll() is not None or many.stats()["total"] == before, "the worker to stop")
    assert there.sync()["media"]["added"] == 0
    assert_in_step(there, many)


def test_workers_of_this_machine_need_no_scheduler(there: Operator, many: Service) -> None:
    del there.env["GRAMHOUSE_STORE"]
    report = there.sync()
    assert report["state"] == "complete"
    written = [path for path in (there.folder / "store").rglob("*") if path.is_file()]
    assert there.folder / "store" / "runs" / "00000001" / "end" in written
    assert not any(KEY.encode() in path.read_bytes() for path in written)
    assert_in_step(there, many)


def test_bad_addresses_and_a_missing_key_are_one_line(there: Operator, cluster: Cluster) -> None:
    for scheduler, why in {
        "tcp://10.0.0.1:8786": "needs TLS",
        "scheduler:8786": "not the address of a Dask scheduler",
    }.items():
        refused = there.run("sync", code=2, GRAMHOUSE_SCHEDULER=scheduler)
        assert why in refused.stderr
        assert "Fix:" in refused.stderr
    refused = there.run("sync", "--max-requests", "5", code=2)
    assert "Fix: leave it out" in refused.stderr
    key, there.env["GRAMHOUSE_API_KEY"] = there.env.pop("GRAMHOUSE_API_KEY"), ""
    cluster.start_scheduler()
    cluster.start_worker()
    there.env["GRAMHOUSE_API_KEY"] = key
    refused = there.run("sync", code=2)
    assert "No API key" in refused.stderr


def test_doctor_checks_the_store_and_the_workers(there: Operator, cluster: Cluster) -> None:
    missing = there.run("doctor", code=1)
    assert "does not answer" in missing.stdout
    assert "creates an object only once" in missing.stdout
    cluster.start_scheduler()
    cluster.start_worker()
    command = [sys.executable, "-m", "flows.cli", "doctor"]

    def checked() -> "subprocess.CompletedProcess[str]":
        folder = Path(__file__).parents[2]
        return subprocess.run(
            command, check=False, env=there.environment(), cwd=folder, capture_output=True, text=True, timeout=PATIENCE
        )

    until(lambda: checked().returncode == 0, "the worker to be counted", pause=0.5)
    assert "and has 1 worker" in checked().stdout
    broken = there.run("doctor", code=1, AWS_ENDPOINT_URL="http://127.0.0.1:9", GRAMHOUSE_STORE="s3://other/store")
    assert "cannot be used" in broken.stdout


def test_ctrl_c_ends_the_workers_of_this_machine_without_a_traceback(there: Operator, many: Service) -> None:
    del there.env["GRAMHOUSE_STORE"]
    # A terminal sends it to every process of the group.
    with subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "sync"],
        env=there.environment(),
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        until(_asked(many, 100), "the workers to be in the middle of it")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err
    assert "run the same command to resume" in err
    assert there.sync()["state"] == "complete"
    assert_in_step(there, many)
