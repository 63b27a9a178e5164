"""`gramhouse up` from its start to its end, with an operator's actions in between."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from flows.orchestration.processes import free_port, prefect
from tests.e2e import processes
from tests.e2e.processes import KEY, TIMEOUT, Operator, SandboxProcess, start_sandboxes
from tests.prefect_api import ask

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]

SLOW = {"action": {"kind": "delay", "seconds": 40}, "operation": "media"}

# Scheduled runs would disturb the tests, so they are due at least six hours from now, not in an hour of a time change.
ZONE = ZoneInfo("Europe/Berlin")
HOUR = 4 if 10 <= datetime.now(ZONE).hour < 22 else 16
NIGHTLY, STORIES = f"15 {HOUR} * * *", f"45 {HOUR},{HOUR + 4} * * *"

# Prefect's server needs up to ten milliseconds for a response: polling without a pause would overload it.
wait_until = partial(processes.wait_until, pause=0.2)


@dataclass
class Up:
    """An operator, their port, and the process of `gramhouse up` if it runs."""

    operator: Operator
    service: SandboxProcess
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def home(self) -> Path:
        return self.operator.folder / "prefect"

    def begin(self) -> list[str]:
        """Start `gramhouse up`; return its output up to the line that says how to stop it."""
        self.process = self.operator.start("up", "--port", str(self.port))
        assert self.process.stdout is not None
        output = []
        for line in self.process.stdout:
            output.append(line.rstrip())
            if "Stop with Ctrl-C" in line:
                return output
        _, err = self.process.communicate()
        raise AssertionError(err)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=TIMEOUT)
        assert "Traceback" not in out + err
        return self.process.returncode

    def ask(self, path: str, document: object = None, method: str = "POST") -> Any:  # noqa: ANN401 - any JSON
        return ask(f"http://127.0.0.1:{self.port}/api", path, document, method)

    def deployments(self) -> dict[str, Any]:
        return {each["name"]: each for each in self.ask("/deployments/filter")}

    def trigger(self, deployment: str, **document: object) -> str:
        path = f"/deployments/{self.deployments()[deployment]['id']}/create_flow_run"
        # The key makes the retries of `ask` create one run.
        return str(self.ask(path, {"idempotency_key": str(uuid4()), **document})["id"])

    def run(self, run: str) -> Any:  # noqa: ANN401 - any JSON
        return self.ask(f"/flow_runs/{run}", method="GET")

    def ended(self, run: str) -> Any:  # noqa: ANN401 - any JSON
        over = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}
        wait_until(lambda: self.run(run)["state_type"] in over, "the run's end")
        return self.run(run)

    def flow_runs(self) -> list[int]:
        """Return the processes of running flow runs."""
        return [pid for pid in self.children() if b"prefect.engine" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def kill_runs(self) -> None:
        for pid in self.flow_runs():
            os.kill(pid, signal.SIGKILL)

    def under_way(self, deployment: str, **document: object) -> str:
        """Start a run and wait until it scans media, which takes long; return its id."""
        wait_until(lambda: not self.flow_runs(), "the last run's process to end")
        self.service.faults(SLOW)
        self.service.forget()
        run = self.trigger(deployment, **document)
        wait_until(lambda: self.service.stats()["total"] > 1, "a media scan")
        return run

    def runs_of(self, deployment: str) -> list[Any]:
        wanted = {"deployments": {"name": {"any_": [deployment]}}, "sort": "EXPECTED_START_TIME_ASC"}
        return list(self.ask("/flow_runs/filter", wanted))

    def restarted(self, deployment: str) -> set[str]:
        """Return the runs that an automation started."""
        makers = {each["id"]: each["created_by"] or {} for each in self.runs_of(deployment)}
        return {run for run, maker in makers.items() if maker.get("type") == "AUTOMATION"}

    def children(self) -> list[int]:
        """Return every process of this `up`, found by PREFECT_HOME in its environment."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"PREFECT_HOME={self.home}".encode() in environment.split(b"\0"):
                found.append(int(folder.name))
        return found


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    with start_sandboxes() as begin:
        service = begin("--accounts", "4", "--posts", "20", "--seed", "11")
        env = {
            "GRAMHOUSE_BASE_URL": service.url,
            "GRAMHOUSE_API_KEY": KEY,
            "GRAMHOUSE_PREFECT_HOME": str(folder / "prefect"),
            "GRAMHOUSE_TIME_ZONE": ZONE.key,
            "GRAMHOUSE_NIGHTLY": NIGHTLY,
            "GRAMHOUSE_STORIES": STORIES,
        }
        made = Up(Operator(folder, env), service, free_port())
        try:
            yield made
        finally:
            if made.process is not None:
                made.process.kill()
                made.process.communicate()
            wait_until(lambda: not made.children(), "the children to follow")


def test_it_comes_up_with_its_deployments_and_their_schedules(up: Up) -> None:
    output = up.begin()
    assert f"http://127.0.0.1:{up.port}" in output[0]
    assert [line.split()[0] for line in output[1:5]] == ["nightly", "stories", "backfill", "publish"]
    assert f"{HOUR:02}:15 Europe/Berlin" in output[1]
    there = up.deployments()
    assert sorted(there) == ["backfill", "nightly", "publish", "stories"]
    crons = {
        name: [(each["schedule"]["cron"], each["schedule"]["timezone"], each["active"]) for each in found["schedules"]]
        for name, found in there.items()
    }
    assert crons == {
        "nightly": [(NIGHTLY, "Europe/Berlin", True)],
        "stories": [(STORIES, "Europe/Berlin", True)],
        "backfill": [],
        "publish": [],
    }
    assert there["stories"]["parameters"]["options"]["surfaces"] == ["stories"]
    assert all(found["tags"] == ["gramhouse"] and found["description"] for found in there.values())


def test_a_second_one_names_the_process_of_the_first(up: Up) -> None:
    assert up.process is not None
    output = up.operator.run("up", code=4)
    assert output.stdout == ""
    [line] = output.stderr.splitlines()
    assert f"gramhouse up at http://127.0.0.1:{up.port} (process {up.process.pid}, since " in line


def test_the_scheduler_plans_and_the_plans_are_in_the_zone(up: Up) -> None:
    wait_until(lambda: len(up.runs_of("nightly")) >= 3, "Prefect's scheduler")
    first = datetime.fromisoformat(up.runs_of("nightly")[0]["expected_start_time"].replace("Z", "+00:00"))
    assert (first.astimezone(ZONE).hour, first.minute) == (HOUR, 15)


def test_a_scheduled_run_starts_and_lands_pages(up: Up) -> None:
    now = datetime.now(UTC)
    nightly = up.deployments()["nightly"]["id"]
    # A scheduled run with yesterday's start time, so it is due now.
    window = {"start_time": str(now - timedelta(hours=25)), "end_time": str(now), "min_runs": 1, "max_runs": 1}
    up.ask(f"/deployments/{nightly}/schedule", window)
    due = up.runs_of("nightly")[0]
    assert due["auto_scheduled"]
    wait_until(lambda: up.run(due["id"])["state_type"] in {"COMPLETED", "FAILED", "CRASHED"}, "the nightly run")
    assert up.run(due["id"])["state_type"] == "COMPLETED"
    assert up.operator.ask("SELECT count(*) > 0 FROM media") == [(True,)]


def test_a_run_renews_the_report_and_its_page_in_prefect_links_it(up: Up) -> None:
    address = f"http://127.0.0.1:{up.port}/gramhouse/report"
    wanted = {"artifacts": {"key": {"any_": ["gramhouse-run"]}}}
    assert f"[**Report with charts**]({address})" in up.ask("/artifacts/filter", wanted)[0]["data"]
    with urllib.request.urlopen(address) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.read() == next(up.operator.folder.rglob("report.html")).read_bytes()


def test_a_run_can_be_read(up: Up) -> None:
    [run] = [each for each in up.runs_of("nightly") if each["state_type"] == "COMPLETED"]
    assert run["name"].startswith("nightly ")
    assert "4 accounts listed" in run["state"]["message"]
    steps = up.ask("/task_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    batch = "stories and posts, accounts 1 to 4"
    assert {step["name"] for step in steps} == {"account catalogue", batch, "merge", "publish"}
    wait_until(
        lambda: len(up.ask("/artifacts/filter", {"artifacts": {"key": {"any_": ["gramhouse-run"]}}})) == 1, "a page"
    )
    [page] = up.ask("/artifacts/filter", {"artifacts": {"key": {"any_": ["gramhouse-run"]}}})
    assert page["flow_run_id"] == run["id"]
    assert page["data"].startswith("## Complete")


def test_a_backfill_runs_with_options_that_are_allowed(up: Up) -> None:
    name = next(a["ig_username"] for a in up.service.accounts() if a["status"] == "active")
    options = {"accounts": [name], "surfaces": ["posts"], "expert": {"reason": "a test"}}
    run = up.ended(up.trigger("backfill", parameters={"options": options}))
    assert (run["state_type"], "1 account chosen" in run["state"]["message"]) == ("COMPLETED", True)
    with pytest.raises(urllib.error.HTTPError) as wrong:
        up.trigger("backfill", parameters={"options": {"accounts": [name], "expert": {"page_size": 80}}})
    assert wrong.value.code in {409, 422}
    wrong.value.close()


def test_a_second_run_is_skipped_and_the_first_can_be_cancelled(up: Up) -> None:
    first = up.under_way("stories")
    second = up.ended(up.trigger("backfill", parameters={"options": {"everything": True, "expert": {"busy_wait": 0}}}))
    assert (second["state_type"], second["state"]["name"]) == ("CANCELLED", "Skipped: locked")
    assert "is held by gramhouse sync (process " in second["state"]["message"]
    up.ask(f"/flow_runs/{first}/set_state", {"state": {"type": "CANCELLING"}})
    assert up.ended(first)["state"]["name"] == "Cancelled"
    last = "SELECT state, detail FROM core.runs ORDER BY started_at DESC LIMIT 1"
    assert up.operator.inside(last) == [("interrupted", "Stopped by a signal.")]


def test_a_killed_run_is_noticed_and_started_again(up: Up) -> None:
    run = up.under_way("stories")
    assert not up.restarted("stories")
    up.kill_runs()
    wait_until(lambda: up.run(run)["state_type"] == "CRASHED", "the runner to notice")
    wait_until(lambda: bool(up.restarted("stories")), "the automation")
    up.service.faults()
    [again] = up.restarted("stories")
    made = up.ended(again)
    assert made["state_type"] == "COMPLETED"
    assert made["parameters"]["options"] == {**up.run(run)["parameters"]["options"], "restarts": 1}
    assert made["parameters"]["options"]["surfaces"] == ["stories"]
    # Prefect drops log lines while its database is busy, so check in the warehouse that the run was resumed.
    runs = up.operator.inside("SELECT run_id, state, resumes, detail, started_at, ended_at FROM core.runs ORDER BY seq")
    killed = [run_id for run_id, _, _, detail, *_ in runs if detail and detail.startswith("The process ended before")]
    assert [state for _, state, resumed, *_ in runs if resumed in killed] == ["complete"], runs


def test_a_run_that_always_crashes_is_not_started_for_ever(up: Up) -> None:
    run = up.under_way("stories", parameters={"options": {"surfaces": ["stories"], "restarts": 3}})
    before = up.restarted("stories")
    up.kill_runs()
    wait_until(lambda: up.run(run)["state_type"] == "CRASHED", "the runner to notice")
    wanted = {"filter": {"event": {"name": ["prefect.automation.action.failed"]}}}

    def refusals() -> list[str]:
        failed = up.ask("/events/filter", wanted)["events"]
        return [each["payload"]["reason"] for each in failed if each["payload"]["action_type"] == "run-deployment"]

    wait_until(lambda: bool(refusals()), "Prefect's refusal")
    assert all("4 is greater than the maximum of 3" in reason for reason in refusals())
    assert before == up.restarted("stories")
    up.service.faults()


def test_a_run_failed_by_an_outage_waits_for_its_retry_and_succeeds(up: Up) -> None:
    up.service.faults({"action": {"kind": "error", "code": "api_internal_error"}, "operation": "accounts"})
    before = datetime.now(UTC)
    run = up.trigger("nightly")
    wait_until(lambda: up.run(run)["state_name"] == "AwaitingRetry", "the retry")
    waiting = up.run(run)
    assert waiting["state_type"] == "SCHEDULED"
    assert waiting["state"]["message"].startswith("Retry 1 of 3 in 5 min (api_internal_error). ")
    due = datetime.fromisoformat(waiting["next_scheduled_start_time"].replace("Z", "+00:00"))
    assert timedelta(seconds=295) < due - before < timedelta(seconds=390)
    # Its process has exited with 0 and holds no lock during the wait.
    wait_until(lambda: not up.flow_runs(), "the run's process to end")
    assert up.run(run)["state_name"] == "AwaitingRetry"
    left = {"event": {"name": ["gramhouse.flow-run.left"]}, "resource": {"id": [f"prefect.flow-run.{run}"]}}
    wait_until(lambda: bool(up.ask("/events/filter", {"filter": left})["events"]), "the event that its process ended")
    [event] = up.ask("/events/filter", {"filter": left})["events"]
    # The automation for runs without a heartbeat uses these.
    names = {each["prefect.resource.role"]: each.get("prefect.resource.name") for each in event["related"]}
    assert (names["flow"], names["deployment"]) == ("sync", "nightly")
    up.operator.run("publish")

    # As if the five minutes had passed; it continues by itself.
    now = {"scheduled_time": datetime.now(UTC).isoformat()}
    up.service.faults()
    again = {"type": "SCHEDULED", "name": "AwaitingRetry", "state_details": now}
    up.ask(f"/flow_runs/{run}/set_state", {"state": again, "force": True})
    made = up.ended(run)
    assert (made["state_type"], made["run_count"]) == ("COMPLETED", 2)


def test_a_wrong_key_is_not_retried(up: Up) -> None:
    up.service.faults({"action": {"kind": "error", "code": "api_unauthorized", "status": 401}})
    failed = up.ended(up.trigger("nightly"))
    assert (failed["state_type"], failed["state_name"], failed["run_count"]) == ("FAILED", "Failed", 1)
    up.service.faults()


def test_sigterm_ends_all_processes_and_interrupts_the_run(up: Up) -> None:
    up.ask(f"/deployments/{up.deployments()['stories']['id']}", {"paused": True}, method="PATCH")
    up.under_way("nightly")
    began = time.monotonic()
    assert up.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 20
    wait_until(lambda: not up.children(), "the children to follow")
    assert up.operator.inside("SELECT state FROM core.runs ORDER BY started_at DESC LIMIT 1") == [("interrupted",)]
    up.service.faults()


def test_missed_and_interrupted_runs_are_made_up_for_once(up: Up) -> None:
    with prefect(up.home, up.port) as server:
        server.wait()
        now = datetime.now(UTC)
        window = {"start_time": str(now - timedelta(days=9)), "end_time": str(now - timedelta(days=4)), "min_runs": 4}
        up.ask(f"/deployments/{up.deployments()['nightly']['id']}/schedule", window)
        runs = up.runs_of("nightly")
        missed = [each["id"] for each in runs if each["state_type"] == "SCHEDULED"][:4]
        assert [each["state_type"] for each in runs if each["state_name"] == "Interrupted"] == ["CANCELLED"]
    output = up.begin()
    assert len([line for line in output if "was interrupted; starting it again." in line]) == 1
    assert [up.run(each)["state_name"] for each in missed] == ["Missed"] * 4
    assert [up.deployments()[name]["paused"] for name in ("nightly", "stories")] == [False, True]
    again = max(up.runs_of("nightly"), key=lambda each: each["created"] if not each["auto_scheduled"] else "")
    wait_until(lambda: up.run(again["id"])["state_type"] == "COMPLETED", "the run that is made once more")


def test_after_a_kill_nothing_is_left(up: Up) -> None:
    assert up.process is not None
    assert up.children()
    up.process.kill()
    up.process.communicate()
    wait_until(lambda: not up.children(), "the children to follow")
    for path in up.home.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
