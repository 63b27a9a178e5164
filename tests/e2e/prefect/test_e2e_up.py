"""`gramhouse up` from its start to its end, with an operator's actions in between."""

import os
import re
import signal
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.api.faults import Rule, refuse
from tests.e2e.prefect.conftest import DUE, HOUR, NIGHTLY, Up, wait_until
from tests.harness.against_api import assert_matches_api
from tests.operator import KEY, Operator
from tests.prefect_api import prefect_server

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

# What the deployment `due` scans whether it is due or not.
STORIES: dict[str, Any] = {"parameters": {"options": {"surfaces": ["stories"]}}}
# The newest run, which no snapshot may have yet.
LAST = "SELECT {} FROM runs WHERE run_id IS NOT NULL ORDER BY seq DESC LIMIT 1"
EVERYTHING: dict[str, Any] = {"parameters": {"options": {"everything": True, "expert": {"busy_wait": 0}}}}


def schedule(up: Up, *, days: float, **window: object) -> list[str]:
    """Schedule runs of the deployment `nightly` from so many days ago; return the ids of its runs."""
    now = datetime.now(UTC)
    window = {"start_time": str(now - timedelta(days=days)), "end_time": str(now), **window}
    up.ask(f"/deployments/{up.deployments()['nightly']['id']}/schedule", window)
    return up.runs_of("nightly")


@pytest.fixture(scope="module")
def nightly(serving: Up) -> str:
    """The id of a scheduled run, with yesterday's start time, that has completed."""
    serving.begin()
    due = schedule(serving, days=25 / 24, min_runs=1, max_runs=1)[0]
    assert serving.run(due)["auto_scheduled"]
    assert serving.ended(due)[0] == "Completed"
    return due


def assert_steps(up: Up, runs: dict[str, Any]) -> None:
    """Assert that a complete run of four accounts has its steps."""
    steps = {step["name"]: step["state_type"] for step in up.ask("/task_runs/filter", runs)}
    names = ("account catalogue", "stories and posts, accounts 1 to 4", "merge", "publish")
    assert steps == dict.fromkeys(names, "COMPLETED")


def test_it_comes_up_with_its_deployments_and_their_schedules(up: Up) -> None:
    shown = "\n".join(up.shown)
    assert f"the key reaches {len(up.service.list_accounts())} accounts" in shown
    assert f"http://127.0.0.1:{up.port}" in shown
    assert f"{HOUR:02}:15 Europe/Berlin" in shown
    # The other fields are tested with the files, in tests/deployments.
    crons = {
        name: [(each["schedule"]["cron"], each["schedule"]["timezone"], each["active"]) for each in found["schedules"]]
        for name, found in up.deployments().items()
    }
    zone = ("Europe/Berlin", True)
    assert crons == {"nightly": [(NIGHTLY, *zone)], "due": [(DUE, *zone)], "backfill": [], "publish": []}


def test_a_scheduled_run_lands_pages_and_its_page_in_prefect_links_the_report(up: Up, nightly: str) -> None:
    assert up.operator.ask("SELECT count(*) > 0 FROM media") == [(True,)]
    assert up.run(nightly)["name"].startswith("nightly ")
    assert "listed 4 accounts" in up.ended(nightly)[1]
    assert_steps(up, {"flow_runs": {"id": {"any_": [nightly]}}})
    wanted = {"artifacts": {"key": {"any_": ["gramhouse-run"]}}, "flow_runs": {"id": {"any_": [nightly]}}}
    wait_until(lambda: len(up.ask("/artifacts/filter", wanted)) == 1, "a page")
    address, page = f"http://127.0.0.1:{up.port}/gramhouse/report", up.ask("/artifacts/filter", wanted)[0]["data"]
    assert page.startswith("## Complete")
    assert f"[Report with charts]({address})" in page
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.read() == next(up.operator.folder.rglob("report.html")).read_bytes()


@pytest.mark.long
def test_without_heartbeats_a_run_is_crashed_but_one_that_has_ended_is_unchanged(up: Up, nightly: str) -> None:
    wait_until(lambda: len(up.runs_of("nightly")) >= 3, "Prefect's scheduler")
    lost = up.runs_of("nightly")[-1]
    up.set_state(lost, "RUNNING", force=True)
    # Prefect knows the states of both, but not their events: those of scheduled runs arrive up to 15 minutes late.
    flow = {"prefect.resource.id": "flow", "prefect.resource.role": "flow", "prefect.resource.name": "sync"}
    for run in (nightly, lost):
        heartbeat = {
            "id": str(uuid4()),
            "occurred": str(datetime.now(UTC) - timedelta(seconds=175)),
            "event": "prefect.flow-run.heartbeat",
            "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
            "related": [flow],
        }
        up.ask("/events", [heartbeat])
    automations = {each["name"]: each["id"] for each in up.ask("/automations/filter")}

    def crashed() -> bool:
        # Prefect evaluates the timers of an automation immediately after a change.
        path = f"/automations/{automations['gramhouse: a run without a heartbeat']}"
        up.ask(path, {"enabled": True}, method="PATCH")
        return bool(up.run(lost)["state_type"] == "CRASHED")

    wait_until(crashed, "the automation", pause=1)
    assert up.states(nightly) == ["Running", "Completed"]


@pytest.mark.long
def test_a_second_run_is_skipped_and_the_first_can_be_cancelled(up: Up) -> None:
    first = up.under_way("due", **STORIES)
    name, message = up.ended(up.trigger("backfill", **EVERYTHING))
    assert (name, "is held by gramhouse sync (process " in message) == ("Cancelled", True)
    up.set_state(first, "CANCELLING")
    assert up.ended(first)[0] == "Cancelled"
    assert up.operator.in_state(LAST.format("state, detail")) == [("interrupted", "Stopped by a signal.")]


@pytest.mark.long
def test_a_killed_run_is_started_again_and_resumes_but_not_for_ever(up: Up) -> None:
    run = up.under_way("due", **STORIES)
    for state, times in (("Running", 2), ("Crashed", 2)):
        for pid in up.flow_runs():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: up.states(run).count(state) == times, state)  # noqa: B023 - it is called at once
    up.service.script.replace()
    # Something that takes longer than the automation, which started the run again within a second before.
    assert up.ended(up.trigger("publish"))[0] == "Completed"
    assert (up.run(run)["state_name"], up.run(run)["run_count"]) == ("Crashed", 2)
    started = [name for name in up.states(run) if name not in {"Pending", "Submitting"}]
    assert started == ["Running", "Crashed", "AwaitingRetry", "Running", "Crashed"]
    # Prefect drops log lines while its database is busy, so check in the warehouse that the run was resumed.
    ended = up.ended(up.trigger("due", **STORIES))
    assert ended[0] == "Completed", ended
    assert up.operator.in_state(LAST.format("state")) == [("complete",)]
    assert up.operator.inside("SELECT resumes IS NOT NULL FROM core.runs ORDER BY seq DESC LIMIT 1") == [(True,)]


@pytest.mark.long
def test_a_run_failed_by_an_outage_waits_for_its_retry_and_holds_no_lock(up: Up) -> None:
    up.service.script.replace([Rule(refuse("api_internal_error"), "accounts")])
    run = up.trigger("nightly")
    logs = {"logs": {"flow_run_id": {"any_": [run]}}}
    retry = "Retry 1 of 3 in 5 min (api_internal_error). "
    wait_until(lambda: any(line["message"].startswith(retry) for line in up.ask("/logs/filter", logs)), "the retry")
    assert up.run(run)["state_name"] == "Running"
    up.operator.run("publish")
    # Otherwise its process waits until the retry.
    up.set_state(run, "CANCELLING")
    assert up.ended(run)[0] == "Cancelled"


def test_a_sync_from_the_command_line_is_tracked_and_lands_the_same(up: Up, tmp_path: Path) -> None:
    tracked = Operator(tmp_path, {**up.operator.env, "PREFECT_API_URL": up.api, "PREFECT_HOME": str(up.home)})
    output = tracked.run("sync")
    assert f"tracked by {up.api}" in output.stderr
    assert "complete" in output.stdout
    assert "prefect" not in output.stderr.replace(up.api, "").replace("tracked by", "").lower()
    assert_matches_api(tracked.ask, up.service)
    from_here = {"flow_runs": {"name": {"like_": "sync "}}}
    [run] = up.ask("flow_runs/filter", from_here)
    assert (run["state"]["name"], "listed 4 accounts" in run["state"]["message"]) == ("Completed", True)
    assert re.fullmatch(r"sync \d{4}-\d\d-\d\d \d\d:\d\d", run["name"])
    assert_steps(up, from_here)


@pytest.mark.usefixtures("nightly")
def test_sigterm_ends_all_processes_and_no_file_of_prefect_contains_the_key(up: Up) -> None:
    # Prefect logs one for a run that it cancelled before.
    before = len(up.log.read_text())
    assert up.end(signal.SIGTERM) == 0
    assert "Traceback" not in up.log.read_text()[before:]
    assert up.children() == []
    assert not [path for path in up.home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@pytest.mark.long
@pytest.mark.usefixtures("nightly")
def test_after_a_stop_one_missed_run_starts_and_what_was_paused_stays_so(up: Up) -> None:
    up.ask(f"/deployments/{up.deployments()['due']['id']}", {"paused": True}, method="PATCH")
    up.end(signal.SIGTERM)
    with prefect_server(up.home, up.port):
        missed = schedule(up, days=9, end_time=str(datetime.now(UTC) - timedelta(days=4)), min_runs=4)[:4]
    up.begin()
    assert sorted(up.ended(each)[0].split()[0] for each in missed) == [*["Cancelled"] * 3, "Completed"]
    assert [up.deployments()[name]["paused"] for name in ("nightly", "due")] == [False, True]


@pytest.mark.long
@pytest.mark.usefixtures("nightly")
@pytest.mark.parametrize("how", ["stopped", "killed", "power failure"])
def test_however_up_ends_its_run_ends_too_and_the_next_one_resumes(up: Up, how: str) -> None:
    run = up.under_way("backfill", **EVERYTHING)
    number = signal.SIGTERM if how == "stopped" else signal.SIGKILL
    # A power failure ends every process at the same time.
    up.end(number, *(up.children() if how == "power failure" else ()))
    # Its process would hold the lock.
    wait_until(lambda: not up.children(), "all processes to end")
    up.service.script.replace()
    [(stopped,)] = up.operator.in_state(LAST.format("run_id"))
    up.operator.run("backfill", "--all")
    assert up.operator.inside(f"SELECT state FROM core.runs WHERE resumes = '{stopped}'") == [("complete",)]
    up.begin()
    # Otherwise an automation finds it and starts it again, during another test.
    up.set_state(run, "CANCELLED", force=True)
