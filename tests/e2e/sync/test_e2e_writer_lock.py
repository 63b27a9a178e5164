"""Two concurrent runs on one warehouse, and backfills, from the command line."""

import json
import signal
import subprocess

import pytest

from connectors.warehouse.storage.holder import holder
from tests.e2e.expected import assert_matches_api
from tests.e2e.processes import TIMEOUT, Operator, SandboxProcess, killed_on_exit, wait_until

pytestmark = pytest.mark.e2e

SLOW = {"action": {"kind": "delay", "seconds": 30}, "operation": "media"}


def _first_line(process: subprocess.Popen[str], beginning: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if beginning in line:
            return line
    pytest.fail(f"it never said {beginning!r}")


# tests/flows/engine/test_flows_writer_lock.py has the wait, and test_e2e_sync a run that does not wait.
@pytest.mark.long
def test_the_second_run_waits_and_names_the_first(operator: Operator, service: SandboxProcess) -> None:
    operator.sync()
    service.faults(SLOW)
    with killed_on_exit(operator.start("sync")) as first:
        wait_until(lambda: holder(operator.warehouse) is not None, "the first to write")
        with killed_on_exit(operator.start("backfill", "--all", GRAMHOUSE_BUSY_WAIT="600")) as second:
            waits = _first_line(second, "Waiting up to 10 min")
            assert f"gramhouse sync (process {first.pid}" in waits
            first.send_signal(signal.SIGTERM)
            first.communicate(timeout=TIMEOUT)
            service.faults()
            out, err = second.communicate(timeout=TIMEOUT)
    assert (first.returncode, second.returncode) == (128 + signal.SIGTERM, 0)
    assert "chosen" in out
    assert "The warehouse is free; continuing." in err
    assert operator.inside("SELECT kind, state FROM core.runs ORDER BY started_at") == [
        ("sync", "complete"),
        ("sync", "interrupted"),
        ("backfill", "complete"),
    ]
    # The backfill did not change the progress of the sync.
    assert operator.sync()["resumed_runs"]
    assert_matches_api(operator, service)


def test_a_backfill_from_the_command_line(operator: Operator, service: SandboxProcess) -> None:
    operator.sync()
    names = sorted(a["ig_username"] for a in service.accounts() if a["status"] == "active")
    message = json.loads(operator.run("backfill", "--account", names[0], "--dry-run", "--json").stdout)
    assert [account["ig_username"] for account in message["accounts"]] == [names[0]]
    service.forget()
    shown = operator.run("backfill", "--account", names[0], "--surface", "posts", "--dry-run").stdout
    assert f"1 scan of 1 account would run, about {message['accounts'][0]['pages'] - 1} request" in shown
    assert service.stats()["total"] == 0

    typed = ("backfill", "--account", f"@{names[0].upper()}", "--surface", "posts", "--reason", "a test", "--json")
    report = json.loads(operator.run(*typed).stdout)
    assert (report["kind"], report["reason"], report["outcomes"]["complete"]) == ("backfill", "a test", 1)
    assert {request["surface"] for request in service.requests()} == {"posts"}
    assert operator.ask("SELECT kind, reason FROM runs ORDER BY started_at DESC LIMIT 1") == [("backfill", "a test")]

    refused = operator.run("backfill", "--account", "nobody", code=2)
    assert "There is no account 'nobody' in the warehouse" in refused.stderr
    assert "Nothing to backfill: no unfinished scans." in operator.run("backfill", "--failed").stdout
    assert len(operator.ask("SELECT * FROM runs")) == 2
