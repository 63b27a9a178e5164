"""`gramhouse up` from its start to its end, with an operator's actions in between."""

import re
import signal
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.api.faults import Rule, refuse
from tests.e2e.prefect.up import DUE, HOUR, NIGHTLY, Up, kill, wait_until
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, Operator
from tests.prefect_api import prefect_server

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

# What the deployment `due` scans whether it is due or not.
STORIES: dict[str, Any] = {"parameters": {"options": {"surfaces": ["stories"]}}}


@pytest.fixture(scope="module")
def nightly(serving: Up) -> str:
    """The id of a scheduled run that has completed."""
    up = serving
    up.begin()
    now = datetime.now(UTC)
    deployment = up.deployments()["nightly"]["id"]
    # A scheduled run with yesterday's start time, so it is due now.
    window = {"start_time": str(now - timedelta(hours=25)), "end_time": str(now), "min_runs": 1, "max_runs": 1}
    up.ask(f"/deployments/{deployment}/schedule", window)
    due = up.runs_of("nightly")[0]
    assert due["auto_scheduled"]
    assert up.ended(str(due["id"]))["state_type"] == "COMPLETED"
    return str(due["id"])


def assert_steps(up: Up, runs: dict[str, Any]) -> None:
    """Assert that a complete run of four accounts has its steps."""
    steps = up.ask("/task_runs/filter", runs)
    batch = "stories and posts, accounts 1 to 4"
    assert {step["name"] for step in steps} == {"account catalogue", batch, "merge", "publish"}
    assert {step["state_type"] for step in steps} == {"COMPLETED"}


def test_it_comes_up_with_its_deployments_and_their_schedules(up: Up) -> None:
    shown = "\n".join(up.shown)
    assert f"the key reaches {len(up.service.list_accounts())} accounts" in shown
    assert f"http://127.0.0.1:{up.port}" in shown
    assert f"{HOUR:02}:15 Europe/Berlin" in shown
    there = up.deployments()
    crons = {
        name: [(each["schedule"]["cron"], each["schedule"]["timezone"], each["active"]) for each in found["schedules"]]
        for name, found in there.items()
    }
    assert crons == {
        "nightly": [(NIGHTLY, "Europe/Berlin", True)],
        "due": [(DUE, "Europe/Berlin", True)],
        "backfill": [],
        "publish": [],
    }
    assert there["due"]["parameters"]["options"] == {"due": True}
    assert all(found["tags"] == ["gramhouse"] and found["description"] for found in there.values())


def test_a_scheduled_run_lands_pages_and_its_page_in_prefect_links_the_report(up: Up, nightly: str) -> None:
    assert up.operator.ask("SELECT count(*) > 0 FROM media") == [(True,)]
    run = up.run(nightly)
    assert run["name"].startswith("nightly ")
    assert "listed 4 accounts" in run["state"]["message"]
    assert_steps(up, {"flow_runs": {"id": {"any_": [run["id"]]}}})
    address, page = f"http://127.0.0.1:{up.port}/gramhouse/report", up.page_of(nightly)["data"]
    assert page.startswith("## Complete")
    assert f"[Report with charts]({address})" in page
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.read() == next(up.operator.folder.rglob("report.html")).read_bytes()


@pytest.mark.long
def test_without_heartbeats_a_run_is_crashed_but_one_that_has_ended_is_unchanged(up: Up, nightly: str) -> None:
    wait_until(lambda: len(up.runs_of("nightly")) >= 3, "Prefect's scheduler")
    lost = up.runs_of("nightly")[-1]["id"]
    up.ask(f"/flow_runs/{lost}/set_state", {"state": {"type": "RUNNING"}, "force": True})
    # Prefect knows the states of both, but not their events: those of scheduled runs arrive up to 15 minutes late.
    for run in (nightly, lost):
        heartbeat = {
            "id": str(uuid4()),
            "occurred": str(datetime.now(UTC) - timedelta(seconds=175)),
            "event": "prefect.flow-run.heartbeat",
            "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
            "related": [
                {"prefect.resource.id": "flow", "prefect.resource.role": "flow", "prefect.resource.name": "sync"}
            ],
        }
        up.ask("/events", [heartbeat])
    [automation] = [
        each["id"] for each in up.ask("/automations/filter") if each["name"].endswith("a run without a heartbeat")
    ]

    def crashed() -> bool:
        # Prefect evaluates the timers of an automation immediately after a change.
        up.ask(f"/automations/{automation}", {"enabled": True}, method="PATCH")
        return bool(up.run(lost)["state_type"] == "CRASHED")

    wait_until(crashed, "the automation", pause=1)
    assert up.run(nightly)["state_type"] == "COMPLETED"
    assert up.states(nightly) == ["Running", "Completed"]


@pytest.mark.long
def test_a_second_run_is_skipped_and_the_first_can_be_cancelled(up: Up) -> None:
    first = up.under_way("due", **STORIES)
    second = up.ended(up.trigger("backfill", parameters={"options": {"everything": True, "expert": {"busy_wait": 0}}}))
    assert (second["state_type"], second["state"]["name"]) == ("CANCELLED", "Cancelled")
    assert "is held by gramhouse sync (process " in second["state"]["message"]
    up.ask(f"/flow_runs/{first}/set_state", {"state": {"type": "CANCELLING"}})
    assert up.ended(first)["state"]["name"] == "Cancelled"
    assert (up.last_run()["state"], up.last_run()["detail"]) == ("interrupted", "Stopped by a signal.")


@pytest.mark.long
def test_a_killed_run_is_started_again_and_resumes_but_not_for_ever(up: Up) -> None:
    run = up.under_way("due", **STORIES)
    kill(*up.flow_runs())
    wait_until(lambda: up.states(run).count("Running") == 2, "the run to be started again")
    kill(*up.flow_runs())
    wait_until(lambda: up.states(run).count("Crashed") == 2, "the runner to notice")
    up.service.script.replace()
    # Something that takes longer than the automation, which started the run again within a second before.
    assert up.ended(up.trigger("publish"))["state_type"] == "COMPLETED"
    assert (up.run(run)["state_name"], up.run(run)["run_count"]) == ("Crashed", 2)
    started = [name for name in up.states(run) if name not in {"Pending", "Submitting"}]
    assert started == ["Running", "Crashed", "AwaitingRetry", "Running", "Crashed"]
    # Prefect drops log lines while its database is busy, so check in the warehouse that the run was resumed.
    assert up.ended(up.trigger("due", **STORIES))["state_type"] == "COMPLETED"
    [(last, first)] = up.operator.inside("SELECT state, resumes FROM core.runs ORDER BY seq DESC LIMIT 1")
    assert (last, first is not None) == ("complete", True)


@pytest.mark.long
def test_a_run_failed_by_an_outage_waits_for_its_retry_and_holds_no_lock(up: Up) -> None:
    up.service.script.replace([Rule(refuse("api_internal_error"), "accounts")])
    run = up.trigger("nightly")
    of_run = {"logs": {"flow_run_id": {"any_": [run]}}}

    def is_waiting() -> bool:
        messages = [line["message"] for line in up.ask("/logs/filter", of_run)]
        return any(each.startswith("Retry 1 of 3 in 5 min (api_internal_error). ") for each in messages)

    wait_until(is_waiting, "the retry")
    assert up.run(run)["state_name"] == "Running"
    up.operator.run("publish")
    # Otherwise its process waits until the retry.
    up.ask(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
    assert up.ended(run)["state"]["name"] == "Cancelled"


def test_a_sync_from_the_command_line_is_tracked_and_lands_the_same(up: Up, tmp_path: Path) -> None:
    api = f"http://127.0.0.1:{up.port}/api"
    tracked = Operator(tmp_path, {**up.operator.env, "PREFECT_API_URL": api, "PREFECT_HOME": str(up.home)})
    output = tracked.run("sync")
    assert f"tracked by {api}" in output.stderr
    assert "complete" in output.stdout
    assert "prefect" not in output.stderr.replace(api, "").replace("tracked by", "").lower()
    assert_matches_api(tracked.ask, up.service)

    from_here = {"flow_runs": {"name": {"like_": "sync "}}}
    [run] = up.ask("flow_runs/filter", from_here)
    assert run["state_type"] == "COMPLETED"
    assert run["state"]["name"] == "Completed"
    assert "listed 4 accounts" in run["state"]["message"]
    assert re.fullmatch(r"sync \d{4}-\d\d-\d\d \d\d:\d\d", run["name"])
    assert_steps(up, from_here)


@pytest.mark.usefixtures("nightly")
def test_sigterm_ends_all_processes_and_no_file_of_prefect_contains_the_key(up: Up) -> None:
    # Prefect logs one for a run that it cancelled before.
    before = len(up.log.read_text())
    assert up.end(signal.SIGTERM) == 0
    assert "Traceback" not in up.log.read_text()[before:]
    assert up.children() == []
    for path in up.home.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.long
@pytest.mark.usefixtures("nightly")
def test_after_a_stop_one_missed_run_starts_and_what_was_paused_stays_so(up: Up) -> None:
    up.ask(f"/deployments/{up.deployments()['due']['id']}", {"paused": True}, method="PATCH")
    assert up.end(signal.SIGTERM) == 0
    with prefect_server(up.home, up.port):
        now = datetime.now(UTC)
        window = {"start_time": str(now - timedelta(days=9)), "end_time": str(now - timedelta(days=4)), "min_runs": 4}
        up.ask(f"/deployments/{up.deployments()['nightly']['id']}/schedule", window)
        missed = [each["id"] for each in up.runs_of("nightly")][:4]
    up.begin()
    assert sorted(up.ended(each)["state_name"].split()[0] for each in missed) == [*["Cancelled"] * 3, "Completed"]
    assert [up.deployments()[name]["paused"] for name in ("nightly", "due")] == [False, True]


@pytest.mark.long
@pytest.mark.usefixtures("nightly")
@pytest.mark.parametrize("how", ["stopped", "killed", "power failure"])
def test_however_up_ends_its_run_ends_too_and_the_next_one_resumes(up: Up, how: str) -> None:
    run = up.under_way("backfill", parameters={"options": {"everything": True}})
    if how == "power failure":
        up.kill()
    else:
        up.end(signal.SIGTERM if how == "stopped" else signal.SIGKILL)
    # Its process would hold the lock.
    wait_until(lambda: not up.children(), "all processes to end")
    up.service.script.replace()
    stopped = up.last_run()["run_id"]
    up.operator.run("backfill", "--all")
    assert up.operator.inside(f"SELECT state FROM core.runs WHERE resumes = '{stopped}'") == [("complete",)]
    up.begin()
    # Otherwise an automation finds it and starts it again, during another test.
    up.ask(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLED"}, "force": True})
