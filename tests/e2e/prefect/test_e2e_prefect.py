"""A sync that is tracked by a real Prefect server; test_e2e_up has a complete one."""

import signal
from pathlib import Path

import pytest

from tests.e2e.expected import assert_matches_api
from tests.e2e.processes import TIMEOUT, Operator, SandboxProcess, killed_on_exit, wait_until
from tests.prefect_api import ask

pytestmark = [pytest.mark.e2e, pytest.mark.prefect]


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
