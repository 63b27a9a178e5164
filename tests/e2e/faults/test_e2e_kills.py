"""Killed at any moment: the result is the same, and no landed page is requested twice."""

import json
import signal
import time
from typing import Any

import pytest

from connectors.warehouse.storage.holder import holder
from tests.e2e.expected import assert_matches_api
from tests.e2e.processes import TIMEOUT, Operator, SandboxProcess, killed_on_exit, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def _small_pages(operator: Operator) -> None:
    operator.env["GRAMHOUSE_PAGE_SIZE"] = "5"


def _key(entry: dict[str, Any]) -> tuple[Any, ...]:
    return (entry["operation"], entry["account_id"], entry["surface"], entry["cursor"])


def _kill_after(
    operator: Operator, service: SandboxProcess, requests: int, number: int = signal.SIGKILL, *options: str
) -> int:
    service.faults({"action": {"kind": "delay", "seconds": 0.02}})
    with killed_on_exit(operator.start("sync", *options)) as process:
        wait_until(lambda: service.stats()["total"] >= requests or process.poll() is not None, "the run to get there")
        began = time.monotonic()
        process.send_signal(number)
        process.communicate(timeout=TIMEOUT)
        # The limit is ten seconds; usually it takes less than one.
        assert time.monotonic() - began < 10
    service.faults()
    return process.returncode


def _landed(operator: Operator, service: SandboxProcess) -> set[tuple[Any, ...]]:
    ids = {frame.commit.page.correlation_id for frame in operator.landed() if frame.commit.page is not None}
    return {_key(entry) for entry in service.requests() if entry["correlation_id"] in ids}


# The simulation tests kills at every moment.
@pytest.mark.parametrize(
    "requests", [pytest.param(1, marks=pytest.mark.long), 9, pytest.param(55, marks=pytest.mark.long)]
)
def test_a_killed_run_is_carried_on_and_asks_for_no_landed_page(
    operator: Operator, service: SandboxProcess, requests: int
) -> None:
    _kill_after(operator, service, requests)
    landed = _landed(operator, service)
    service.forget()
    report = operator.sync()
    assert report["state"] == "complete"
    asked = [_key(entry) for entry in service.requests()]
    assert not landed & set(asked)
    assert len(asked) == len(set(asked))
    assert_matches_api(operator, service)
    states = [state for (state,) in operator.ask("SELECT state FROM runs ORDER BY started_at")]
    assert states == ["interrupted", "complete"]
    assert len(report["resumed_runs"]) == 1


COUNTS = ("added", "changed", "removed", "expired", "returned")


def _sums(operator: Operator) -> tuple[Any, ...]:
    """The sums of all runs' counts, and the numbers in the tables: all media, and removed media."""
    sums = ", ".join(f"sum({name})::BIGINT" for name in COUNTS)
    (found,) = operator.ask(f"SELECT {sums} FROM runs")
    assert found == operator.inside(f"SELECT {sums} FROM core.run_counts")[0]
    added, _, removed, expired, returned = found
    shown = "SELECT count(*), count(*) FILTER (removed_at IS NOT NULL) FROM media"
    assert operator.ask(shown) == [(added, removed + expired - returned)]
    return found


@pytest.mark.long
def test_each_run_counts_its_own_landed_items(operator: Operator, service: SandboxProcess) -> None:
    _kill_after(operator, service, 30)
    bodies = [json.loads(bytes(frame.body)) for frame in operator.landed() if frame.body]
    landed = [(sum(len(body["items"]) for body in bodies), len(bodies))]
    assert "interrupted" in operator.run("sync").stdout
    report = None
    for day, number in ((1, signal.SIGINT), (2, signal.SIGKILL)):
        service.day(day).forget()
        _kill_after(operator, service, 20, number)
        # One of eight accounts leaves the catalogue, which is partial until somebody confirms it.
        report = json.loads(operator.run("sync", "--json", "--accept-removals").stdout)
        _sums(operator)
    assert report is not None
    runs = operator.ask("SELECT run_id, state, pages, items, added FROM runs ORDER BY started_at")
    assert [run[1] for run in runs] == ["interrupted", "complete"] * 3
    assert all(pages and items for _, _, pages, items, _ in runs)
    assert landed == [runs[0][3:1:-1]]
    assert runs[0][4] > 0
    ((resumed,), own) = (report["resumed"], report["media"])
    message = {name: resumed["media"][name] + own[name] for name in COUNTS}
    assert (resumed["run_id"], resumed["pages"], resumed["items"]) == (runs[4][0], *runs[4][2:4])
    assert (report["pages"], report["items"]) == runs[5][2:4]
    sums = ", ".join(f"sum({name})" for name in COUNTS)
    ids = (resumed["run_id"], report["run_id"])
    assert operator.ask(f"SELECT {sums} FROM runs WHERE run_id IN (?, ?)", ids) == [tuple(message.values())]


@pytest.mark.long
def test_publish_credits_landed_pages_to_the_killed_run(operator: Operator, service: SandboxProcess) -> None:
    _kill_after(operator, service, 30)
    text = operator.run("status", code=3).stdout
    assert "ended before the run" in text
    assert "Fix: run the same command to resume" in text
    operator.run("publish")
    assert "Last run: sync: interrupted" in operator.run("status", code=3).stdout
    ((state, pages, added),) = operator.ask("SELECT state, pages, added FROM runs")
    assert (state, pages > 0, (added,)) == ("interrupted", True, operator.ask("SELECT count(*) FROM media")[0])


@pytest.mark.long
def test_a_cursor_no_longer_accepted_restarts_that_scan_alone(operator: Operator, service: SandboxProcess) -> None:
    _kill_after(operator, service, 30)
    last = {frame.partition: frame.commit.checkpoint for frame in operator.landed() if frame.commit.checkpoint}
    half = [(of.account_id, of.surface) for of, checkpoint in last.items() if of and checkpoint.cursor is not None]
    assert half
    service.forget()
    service.faults({"action": "forget_cursors", "times": 1})
    text = operator.run("sync", "--json", "--verbose")
    report = json.loads(text.stdout)
    assert report["state"] == "complete"
    assert text.stderr.count("cursor refused; scanning again from the first page") == len(half)
    assert_matches_api(operator, service)
    restarted = operator.ask("SELECT account_id, surface FROM run_outcomes WHERE detail LIKE 'The cursor was refused%'")
    assert sorted(restarted) == sorted(half)
    assert report["restarted"] == len(half)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_ends_a_run_politely(operator: Operator, service: SandboxProcess, number: int) -> None:
    assert _kill_after(operator, service, 30, number) == 128 + number
    assert holder(operator.warehouse) is None
    landed = _landed(operator, service)
    assert landed
    assert operator.inside("SELECT state FROM core.runs") == [("interrupted",)]
    service.forget()
    operator.sync()
    assert not landed & {_key(entry) for entry in service.requests()}
    assert_matches_api(operator, service)
