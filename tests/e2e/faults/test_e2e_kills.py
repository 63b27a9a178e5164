"""Killed, stopped or out of disk space: the result is the same, and no landed page is requested twice."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.warehouse.storage.holder import holder
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, TIMEOUT, Operator, killed_on_exit, wait_until
from tests.security.canary import holding

pytestmark = pytest.mark.e2e

# During the start, and during the merge and the publish after the last request, kills are timed: there are no requests
# to count.
STORIES, KILLS, MOST_SECONDS, MOST_REQUESTS = 24, 10, 1.6, 90


def end_after(process: subprocess.Popen[str], service: Api, requests: int, number: int) -> tuple[int, str, str]:
    """Send a signal to a process after it has sent so many requests; return its exit code and output."""
    wait_until(lambda: len(service.requests) >= requests or process.poll() is not None, "the run to get there")
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def forget_requests(operator: Operator, service: Api) -> set[object]:
    """Return the pages that landed and are not merged, as they were requested; forget all requests."""
    query = "SELECT entry ->> 'correlation_id' FROM inbox WHERE length(body) > 0"
    landed = operator.in_state(query) if operator.warehouse.exists() else []
    pages = [one for one in service.requests if (one.correlation_id,) in landed]
    service.requests.clear()
    return {(one.account_id, one.surface, one.cursor) for one in pages}


def check_requests(service: Api, landed: set[object]) -> None:
    assert not landed & {(one.account_id, one.surface, one.cursor) for one in service.requests}


# The simulation tests kills at every moment.
@pytest.mark.parametrize(
    ("requests", "number"),
    [(9, signal.SIGKILL), (30, signal.SIGTERM), pytest.param(30, signal.SIGINT, marks=pytest.mark.long)],
)
def test_a_run_that_is_ended_is_carried_on_and_asks_for_no_landed_page(
    operator: Operator, service: Api, requests: int, number: signal.Signals
) -> None:
    operator.env["GRAMHOUSE_PAGE_SIZE"] = "5"
    service.script.replace([Rule(Action("delay", seconds=0.02))])
    with killed_on_exit(operator.start("sync", "--json")) as process:
        code, out, err = end_after(process, service, requests, number)
    assert KEY not in out + err
    assert holding(operator.folder, KEY) == set()
    service.script.replace()
    if number != signal.SIGKILL:
        document = json.loads(out)
        assert document.keys() == {"state", "exit_code", "message", "hint"}
        assert (code, document["exit_code"], document["state"]) == (128 + number, 128 + number, "stopped")
        assert holder(operator.warehouse) is None
        assert "interrupted" in operator.run("status", code=3).stdout
    landed = forget_requests(operator, service)
    assert landed
    [earlier] = [line for line in operator.run("sync").stdout.splitlines() if line.startswith("earlier")]
    assert "(interrupted): " in earlier
    check_requests(service, landed)
    assert_matches_api(operator.ask, service)
    assert operator.ask("SELECT state FROM runs ORDER BY seq") == [("interrupted",), ("complete",)]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(STORIES))
def test_runs_killed_at_random_moments_reach_the_same_result(seed: int, operator: Operator, service: Api) -> None:
    chance = random.Random(seed)
    operator.env["GRAMHOUSE_PAGE_SIZE"] = "5"
    for service.day in range(2):
        for _ in range(KILLS // 2):
            landed = forget_requests(operator, service)
            number = signal.SIGKILL if chance.random() < 0.8 else signal.SIGTERM
            with killed_on_exit(operator.start("sync")) as process:
                requests = chance.choice((0, chance.randrange(1, MOST_REQUESTS)))
                time.sleep(0 if requests else chance.uniform(0, MOST_SECONDS))
                end_after(process, service, requests, number)
            check_requests(service, landed)
        assert operator.sync()["state"] == "complete"
        # Items that an earlier day's scan has passed are seen by another scan.
        operator.sync()
        assert_matches_api(operator.ask, service)
        service.requests.clear()
    assert not list(operator.folder.glob("*.next*"))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_one_line_and_landed_pages_are_kept(operator: Operator, service: Api, small: Path) -> None:
    operator.env["GRAMHOUSE_WAREHOUSE"] = str(small / "warehouse.duckdb")
    message = operator.run("sync", code=1).stderr
    [line] = [line for line in message.splitlines() if " gramhouse sync of " not in line]
    full = "No space left on device. Fix: check the path, free space or memory, then retry; landed pages are kept."
    assert full in line
    subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
    assert operator.sync()["resumed_runs"]
    assert_matches_api(operator.ask, service)
