"""Killed at any moment: the same result, and no landed page asked for twice."""

import json
import signal
from typing import Any

import pytest

from tests.e2e.conftest import PATIENCE, Operator, Service, assert_in_step, stopped, until

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _small_pages(operator: Operator) -> None:
    operator.env["GRAMHOUSE_PAGE_SIZE"] = "5"


def _key(entry: dict[str, Any]) -> tuple[Any, ...]:
    return (entry["operation"], entry["account_id"], entry["surface"], entry["cursor"])


def _kill_after(operator: Operator, service: Service, requests: int, number: int = signal.SIGKILL) -> int:
    service.faults({"action": {"kind": "delay", "seconds": 0.02}})
    with stopped(operator.start("sync")) as process:
        until(lambda: service.stats()["total"] >= requests or process.poll() is not None, "the run to get there")
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
    service.faults()
    return process.returncode


def _landed(operator: Operator, service: Service) -> set[tuple[Any, ...]]:
    ids = {row[0] for row in operator.inside("SELECT correlation_id FROM ops.staging")}
    return {_key(entry) for entry in service.requests() if entry["correlation_id"] in ids}


@pytest.mark.parametrize("requests", [1, 2, 9, 30, 55])
def test_a_killed_run_is_carried_on_and_asks_for_no_landed_page(
    operator: Operator, service: Service, requests: int
) -> None:
    _kill_after(operator, service, requests)
    landed = _landed(operator, service)
    service.forget()
    report = operator.sync()
    assert report["state"] == "complete"
    asked = [_key(entry) for entry in service.requests()]
    assert not landed & set(asked)
    assert len(asked) == len(set(asked))
    assert_in_step(operator, service)
    states = [state for (state,) in operator.ask("SELECT state FROM runs ORDER BY started_at")]
    assert states == ["interrupted", "complete"]
    assert len(report["carried_on"]) == 1


def test_killed_again_and_again_it_gets_there(operator: Operator, service: Service) -> None:
    landed: set[tuple[Any, ...]] = set()
    for _ in range(4):
        _kill_after(operator, service, 12)
        assert not landed & {_key(entry) for entry in service.requests()}
        landed |= _landed(operator, service)
        service.forget()
    report = operator.sync()
    assert report["state"] == "complete"
    assert len(report["carried_on"]) == 4
    assert not landed & {_key(entry) for entry in service.requests()}
    assert_in_step(operator, service)
    assert operator.sync()["media"]["added"] == 0


def test_a_cursor_no_longer_accepted_restarts_that_walk_alone(operator: Operator, service: Service) -> None:
    _kill_after(operator, service, 30)
    half = operator.inside(
        "SELECT account_id, surface FROM ops.checkpoints QUALIFY row_number() OVER"
        " (PARTITION BY resource, account_id, surface ORDER BY seq DESC) = 1 AND state = 'walking'"
    )
    assert half
    service.forget()
    service.faults({"action": "forget_cursors", "times": 1})
    said = operator.run("sync", "--json", "--verbose")
    report = json.loads(said.stdout)
    assert report["state"] == "complete"
    assert said.stderr.count("the cursor was refused; walked again from the first page") == len(half)
    assert_in_step(operator, service)
    restarted = operator.ask("SELECT account_id, surface FROM run_outcomes WHERE detail LIKE 'Its cursor was refused%'")
    assert sorted(restarted) == sorted(half)
    assert report["restarted"] == len(half)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_politely(operator: Operator, service: Service, number: int) -> None:
    assert _kill_after(operator, service, 30, number) == 128 + number
    landed = _landed(operator, service)
    assert landed
    assert operator.inside("SELECT state FROM core.runs") == [("interrupted",)]
    service.forget()
    operator.sync()
    assert not landed & {_key(entry) for entry in service.requests()}
    assert_in_step(operator, service)
