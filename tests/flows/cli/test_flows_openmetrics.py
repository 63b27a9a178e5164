"""`gramhouse status --format openmetrics`: valid for Prometheus' own parsers, with the same numbers as `--json`."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text_format

from flows.cli.commands.status import metrics, read_status
from flows.config.settings import load
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
    settings = load(snapshot=str(tmp_path / "analytics.duckdb"), warehouse=tmp_path / "warehouse.duckdb")
    found = parsed(metrics(read_status(settings, START + timedelta(hours=48))))

    def value(name: str, **labels: str) -> float:
        return found[f"gramhouse_{name}", tuple(sorted(labels.items()))]

    assert value("snapshot_readable") == 1
    reasons = {labels[0][1]: holds for (name, labels), holds in found.items() if name == "gramhouse_attention"}
    assert (len(reasons), {reason for reason, holds in reasons.items() if holds}) == (10, {"failed", "stale"})
    assert value("last_run_ended_timestamp_seconds") >= START.timestamp()
    assert value("last_run_count", what="added") == 3 * 6
    assert value("accounts_token_expired") == 1
    assert value("stale_accounts", surface="posts") == 8
    assert value("oldest_age_seconds", surface="posts") == 48 * 3600
    assert value("incomplete_scans", outcome="denied", code="api_forbidden") == 1
    assert value("incomplete_scans", outcome="deferred", code="rate_limited") == 2
    until = value("cooldown_until_timestamp_seconds", outcome="deferred", code="rate_limited")
    assert until >= START.timestamp() + 9000


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


def test_failures_of_one_cause_are_added_up_and_any_error_code_is_escaped() -> None:
    """The catalogue, and scans with a long cooldown, are groups of their own."""
    code = 'a\\"b\n# EOF\x1b[31m'
    groups = ((9, START), (2, START + timedelta(days=9)), (1, None))
    failures = [
        {"outcome": "deferred", "error_code": code, "scans": scans, "resume_after": until} for scans, until in groups
    ]
    found: dict[str, Any] = {"attention": [], "last_ended_run": None, "freshness": [], "failures": failures}
    text = metrics({**found, "totals": dict.fromkeys(("expired", "stale_after"))})
    labels = (("code", 'a\\"b # EOF [31m'), ("outcome", "deferred"))
    assert "\x1b" not in text
    assert parsed(text)["gramhouse_incomplete_scans", labels] == 12
    until = parsed(text)["gramhouse_cooldown_until_timestamp_seconds", labels]
    assert until == (START + timedelta(days=9)).timestamp()
