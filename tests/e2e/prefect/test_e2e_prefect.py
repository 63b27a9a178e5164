"""The same sync, tracked by a real Prefect server."""

import re
import signal
import sqlite3
from pathlib import Path

import pytest

from flows.orchestration.processes import free_port
from tests.e2e.expected import assert_matches_api
from tests.e2e.processes import KEY, PROXIES, TIMEOUT, Operator, SandboxProcess, killed_on_exit, wait_until
from tests.prefect_api import ask

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]


def test_a_tracked_sync_lands_the_same_and_shows_it(
    operator: Operator, service: SandboxProcess, api: str, home: Path
) -> None:
    operator.env |= {"PREFECT_API_URL": api, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1", **PROXIES}
    output = operator.run("sync")
    assert f"tracked by {api}" in output.stderr
    assert "complete" in output.stdout
    assert "prefect" not in output.stderr.replace(api, "").replace("tracked by", "").lower()
    assert_matches_api(operator, service)

    [run] = ask(api, "flow_runs/filter")
    assert run["state_type"] == "COMPLETED"
    assert run["state"]["name"] == "Completed" + (" with expired accounts" if service.expired() else "")
    assert f"{len(service.accounts())} accounts listed" in run["state"]["message"]
    assert re.fullmatch(r"sync \d{4}-\d\d-\d\d \d\d:\d\d", run["name"])
    batch = f"stories and posts, accounts 1 to {len(service.accounts())}"
    assert {step["name"] for step in ask(api, "task_runs/filter")} == {"account catalogue", batch, "merge", "publish"}
    assert {step["state_type"] for step in ask(api, "task_runs/filter")} == {"COMPLETED"}

    operator.run("sync", code=1, GRAMHOUSE_API_KEY="wrong-canary-8c1")
    assert {run["state"]["name"] for run in ask(api, "flow_runs/filter")} >= {"Failed"}

    for path in home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert KEY.encode() not in content
            assert b"wrong-canary-8c1" not in content
    with sqlite3.connect(home / "prefect.db") as db:
        assert db.execute("SELECT count(*) FROM flow_run").fetchone() == (2,)
    db.close()


def test_without_an_api_it_runs_directly_and_reports_it(operator: Operator) -> None:
    assert "PREFECT_API_URL is not set" in operator.run("sync").stderr


@pytest.mark.long
def test_a_signal_ends_a_tracked_run_politely(
    operator: Operator, service: SandboxProcess, api: str, home: Path
) -> None:
    operator.env |= {"PREFECT_API_URL": api, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
    service.faults({"action": {"kind": "delay", "seconds": 30}, "operation": "media"})
    with killed_on_exit(operator.start("sync")) as process:
        wait_until(lambda: service.stats()["total"] > 1, "a media scan")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in out + err
    assert operator.inside("SELECT state FROM core.runs") == [("interrupted",)]
    newest = max(ask(api, "flow_runs/filter"), key=lambda run: run["created"])
    assert (newest["state_type"], newest["state"]["name"]) == ("CRASHED", "Crashed")
    assert "Saved pages are kept" in newest["state"]["message"]
    service.faults()
    output = operator.run("sync")
    assert "Resuming interrupted run" in output.stderr
    assert "resumed" in output.stdout
    assert_matches_api(operator, service)


def test_a_prefect_api_that_does_not_answer_is_reported_in_one_line(operator: Operator) -> None:
    output = operator.run("sync", code=1, PREFECT_API_URL=f"http://127.0.0.1:{free_port()}/api")
    assert "does not answer. Fix: start the server (`gramhouse up`" in output.stderr
    assert output.stdout == ""
