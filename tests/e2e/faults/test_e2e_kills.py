"""Killed at any moment: the result is the same, and no landed page is requested twice."""

import json
import signal
from typing import Any

import pytest

from connectors.warehouse.storage.holder import holder
from tests.api.asked import Asked
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import TIMEOUT, Operator, killed_on_exit, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _small_pages(operator: Operator) -> None:
    operator.env["GRAMHOUSE_PAGE_SIZE"] = "5"


def _key(entry: Asked) -> tuple[Any, ...]:
    return (entry.operation, entry.account_id, entry.surface, entry.cursor)


def _kill_after(operator: Operator, service: Api, requests: int, number: int = signal.SIGKILL) -> tuple[int, str]:
    """Return the exit code and the output of a sync that gets a signal after a number of requests."""
    service.script.replace([Rule(Action("delay", seconds=0.02))])
    with killed_on_exit(operator.start("sync", "--json")) as process:
        wait_until(lambda: len(service.requests) >= requests or process.poll() is not None, "the run to get there")
        process.send_signal(number)
        out, _ = process.communicate(timeout=TIMEOUT)
    service.script.replace()
    return process.returncode, out


def _landed(operator: Operator, service: Api) -> set[tuple[Any, ...]]:
    ids = {frame.correlation_id for frame in operator.landed() if frame.page}
    return {_key(entry) for entry in service.requests if entry.correlation_id in ids}


# The simulation tests kills at every moment.
def test_a_killed_run_is_carried_on_and_asks_for_no_landed_page(operator: Operator, service: Api) -> None:
    _kill_after(operator, service, 9)
    landed = _landed(operator, service)
    service.requests.clear()
    report = operator.sync()
    assert report["state"] == "complete"
    asked = [_key(entry) for entry in service.requests]
    assert not landed & set(asked)
    assert len(asked) == len(set(asked))
    assert_matches_api(operator.ask, service)
    states = [state for (state,) in operator.ask("SELECT state FROM runs ORDER BY started_at")]
    assert states == ["interrupted", "complete"]
    assert len(report["resumed_runs"]) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_ends_a_run_politely(operator: Operator, service: Api, number: int) -> None:
    code, out = _kill_after(operator, service, 30, number)
    document = json.loads(out)
    assert set(document) == {"state", "exit_code", "message", "hint"}
    assert (code, document["exit_code"], document["state"]) == (128 + number, 128 + number, "stopped")
    assert holder(operator.warehouse) is None
    landed = _landed(operator, service)
    assert landed
    assert "interrupted" in operator.run("status", code=3).stdout
    service.requests.clear()
    operator.sync()
    assert not landed & {_key(entry) for entry in service.requests}
    assert_matches_api(operator.ask, service)
