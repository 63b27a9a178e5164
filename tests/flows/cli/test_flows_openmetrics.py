"""`gramhouse status --format openmetrics`: valid for Prometheus' own parsers, with the same numbers as `--json`."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from connectors.state.database import open_state, state_path
from connectors.state.runs import begin_run
from connectors.warehouse.storage.holder import hold
from flows.cli.commands.status import read_status
from flows.cli.output.openmetrics import metrics
from flows.config.settings import load
from flows.engine.upkeep import publish_now
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi
from tests.clocks import START
from tests.operator import run_here
from tests.runs import synced

pytestmark = pytest.mark.anyio

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    """Return the samples of an exposition; node_exporter reads the older text format, which knows fewer types."""
    samples = [[sample for family in parse(text) for sample in family.samples] for parse in (openmetrics, text_format)]
    assert {sample.timestamp for each in samples for sample in each} == {None}, "node_exporter refuses timestamps"
    found = [{(one.name, tuple(sorted(one.labels.items()))): one.value for one in each} for each in samples]
    assert found[0] == found[1]
    kinds = {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert kinds == {"gauge"}
    return found[0]


async def test_the_status_of_a_partial_run_as_metrics(tmp_path: Path) -> None:
    def failure(request: Asked) -> Action | None:
        if request.is_posts(2):
            return refuse("api_forbidden")
        return refuse("rate_limited", 9000) if request.number == 3 else None

    service = ListedApi(accounts=9, expired=frozenset({9}), fault=failure)
    await synced(tmp_path, service)
    settings = load(snapshot=tmp_path / "analytics.duckdb", warehouse=tmp_path / "warehouse.duckdb")
    found = parsed(metrics(*read_status(settings, START + timedelta(hours=48))))

    def value(name: str, **labels: str) -> float:
        return found[f"gramhouse_{name}", tuple(sorted(labels.items()))]

    assert value("snapshot_readable") == 1
    reasons = {labels[0][1]: holds for (name, labels), holds in found.items() if name == "gramhouse_attention"}
    assert (len(reasons), {reason for reason, holds in reasons.items() if holds}) == (11, {"failed", "stale"})
    assert value("last_run_ended_timestamp_seconds") >= START.timestamp()
    assert value("last_run_count", what="added") == 3 * 6
    assert value("accounts_token_expired") == 1
    assert value("stale_accounts", surface="posts") == 8
    assert value("oldest_age_seconds", surface="posts") == 48 * 3600
    assert value("incomplete_scans", outcome="denied", code="api_forbidden") == 1
    assert value("incomplete_scans", outcome="deferred", code="rate_limited") == 2
    until = value("cooldown_until_timestamp_seconds", outcome="deferred", code="rate_limited")
    assert until >= START.timestamp() + 9000


async def test_a_run_without_an_end_does_not_interrupt_the_series_of_runs(tmp_path: Path) -> None:
    settings = load(snapshot=tmp_path / "analytics.duckdb", warehouse=tmp_path / "warehouse.duckdb")

    def of_last_run() -> Samples:
        found = parsed(metrics(*read_status(settings, START)))
        return {sample: value for sample, value in found.items() if sample[0].startswith("gramhouse_last_run")}

    await synced(tmp_path, ListedApi())
    expected = of_last_run()
    assert expected["gramhouse_last_run_ended_timestamp_seconds", ()] >= START.timestamp()
    with open_state(state_path(settings.warehouse)) as state:
        begin: dict[str, Any] = {"now": START, "within": timedelta(), "version": "1"}
        state.write(begin_run, "later", "sync", pid=os.getpid(), **begin)
    with hold(settings.warehouse, "sync", since="noon", pause=lambda _: None):
        assert of_last_run() == expected
    # Without a process that holds the lock, it was killed.
    assert of_last_run() == expected
    await publish_now(settings)
    assert of_last_run() == expected


def test_without_a_snapshot_the_metrics_report_it_and_the_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    code, message, err = run_here("status", "--format", "openmetrics")
    assert code == 1
    assert parsed(message) == {("gramhouse_snapshot_readable", ()): 0}
    assert "There is no snapshot" in err
    # cron renames what was written, whatever the exit code.
    monkeypatch.setenv("GRAMHOUSE_TYPO", "1")
    code, message, err = run_here("status", "--format", "openmetrics")
    assert (code, "GRAMHOUSE_TYPO" in err) == (2, True)
    assert parsed(message) == {("gramhouse_snapshot_readable", ()): 0}


def of_failures(*failures: dict[str, object]) -> str:
    """Return the metrics of a status with these failures and without data."""
    found: dict[str, Any] = {"unresolved": [], "last_ended_run": None, "freshness": [], "failures": failures}
    return metrics({**found, "totals": dict.fromkeys(("expired", "stale_after"))}, {})


def test_any_error_code_is_escaped() -> None:
    text = of_failures({"outcome": "failed", "error_code": 'a\\"b\n# EOF\x1b[31m', "scans": 2, "resume_after": None})
    assert "\x1b" not in text
    assert parsed(text)["gramhouse_incomplete_scans", (("code", 'a\\"b # EOF [31m'), ("outcome", "failed"))] == 2


def test_failures_of_one_cause_are_added_up() -> None:
    """The catalogue, and scans with a long cooldown, are groups of their own."""
    cause: dict[str, object] = {"outcome": "deferred", "error_code": "rate_limited"}
    groups = ((9, START), (2, START + timedelta(days=9)), (1, None))
    found = parsed(of_failures(*(cause | {"scans": scans, "resume_after": until} for scans, until in groups)))
    labels = (("code", "rate_limited"), ("outcome", "deferred"))
    assert found["gramhouse_incomplete_scans", labels] == 12
    assert found["gramhouse_cooldown_until_timestamp_seconds", labels] == (START + timedelta(days=9)).timestamp()
