"""One list of findings: what it says, how severe it is, and that all outputs show the same."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.source.errors import ApiError
from flows.cli.commands import status
from flows.cli.output.run import describe_report
from flows.cli.output.terminal import out
from flows.config.settings import load
from flows.reporting.findings import list_findings
from flows.reporting.for_prefect import list_events, markdown
from flows.reporting.message import to_json, to_message
from flows.reporting.page.write import write_page
from flows.reporting.words import plain, span
from models.findings import Finding, Severity
from models.runs import OutcomeKind
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi
from tests.clocks import START
from tests.flows.reports import failure, fields, report, stale, tokens
from tests.runs import synced

ACTION, WARNING, INFORMATION = Severity

DENIED = failure(OutcomeKind.DENIED, scans=5, usernames=("anna", "ben"))
DEFERRED = failure(OutcomeKind.DEFERRED, "rate_limited", scans=9, resume_after=START + timedelta(hours=2))
LONG = failure(OutcomeKind.DEFERRED, "rate_limited", resume_after=START + timedelta(days=2))
STOP = failure(OutcomeKind.FAILED, "api_unauthorized", detail="Authentication required.")
ANNA = {"ig_username": "anna", "surface": "posts", "removals_undecided_since": START, "complete_at": START}
MANY = [*tokens("anna"), *tokens("ben", "carl", is_new=False)]
REJECTED = [{"reason": "no id.", "records": 9}, {"reason": "other", "records": 3}]


def found(data: dict[str, Any] | None = None, **changes: Any) -> list[tuple[str, Severity, str]]:  # noqa: ANN401
    return [(each.code, each.severity, each.sentence(2)) for each in list_findings(report(data, **changes))]


def test_a_failure_names_its_cause_its_accounts_and_the_fix() -> None:
    outage = failure(OutcomeKind.FAILED, "timeout")
    denied, long, passing, deferred = list_findings(report(failure_groups=(DEFERRED, outage, LONG, DENIED)))
    assert denied == Finding(
        "denied",
        ACTION,
        "5 scans denied (api_forbidden, correlation id TRACE): No",
        "grant the key access to this account in the service's API-key settings; then `gramhouse backfill --failed`",
        ("anna", "ben"),
        5,
    )
    assert (long.code, long.severity) == ("long_cooldown", ACTION)
    assert long.text.startswith(
        "1 scan deferred until 2026-03-03 02:15:00 UTC (rate_limited, correlation id TRACE): No;"
    )
    assert "`gramhouse doctor --repair` lifts it" in long.fix
    assert (passing.code, passing.severity) == ("failed", WARNING)
    assert (deferred.code, deferred.severity, deferred.fix) == ("deferred", WARNING, "")
    assert deferred.text.startswith("9 scans deferred until 2026-03-01 04:15:00 UTC (rate_limited,")
    assert deferred.text.endswith("a later run resumes them")


def test_the_error_that_stopped_a_run_is_first() -> None:
    error = ApiError("accounts.list", "api_unauthorized", "Authentication required.").failure
    stopped = report(failure_groups=(replace(DENIED, scans=50), STOP), stopped_by=error)
    assert [each.code for each in list_findings(stopped)] == ["failed", "denied"]
    [alone] = list_findings(replace(stopped, failure_groups=()))
    assert (alone.severity, alone.text) == (ACTION, "The run stopped (api_unauthorized): Authentication required")
    assert alone.fix


@pytest.mark.parametrize(
    ("data", "code", "severity", "begin"),
    [
        (
            {"expired": MANY},
            "token_expired",
            ACTION,
            "3 access tokens expired, 1 of them newly (anna, ben and 1 more). Fix",
        ),
        (
            stale("anna", "ben"),
            "stale",
            ACTION,
            "2 of 100 accounts: posts not refreshed within 1 d 12 h; the oldest is",
        ),
        ({"undecided": [ANNA]}, "removals_undecided", ACTION, "no missing items of 1 account were marked as removed"),
        (
            {"recent": [{}], "gaps": [ANNA]},
            "gap",
            WARNING,
            "1 scan ended early and left a gap, which the next scan reads",
        ),
        (
            {"quarantine": REJECTED},
            "quarantine",
            WARNING,
            "12 records in quarantine: no id. Fix: `gramhouse quarantine`",
        ),
        ({"new_fields": fields(*"abcdef")}, "new_fields", INFORMATION, "6 new fields: a (VARCHAR), b (VARCHAR), c ("),
    ],
)
def test_the_state_of_the_data(data: dict[str, Any], code: str, severity: Severity, begin: str) -> None:
    [(found_code, found_severity, text)] = found(data)
    assert (found_code, found_severity, text[: len(begin)]) == (code, severity, begin)


def _trouble(asked: Asked) -> Action | None:
    if asked.is_posts(1):
        return refuse("api_forbidden")
    return refuse("rate_limited", retry_after=7200) if asked.is_posts(2) else None


@pytest.mark.anyio
async def test_every_output_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary, its JSON, Prefect's message, page and event, the status and the HTML report."""
    monkeypatch.chdir(tmp_path)
    service = ListedApi(accounts=4, expired=frozenset({3}), fault=_trouble)
    run = await synced(tmp_path, service)
    found = list_findings(run)
    assert [each.code for each in found] == ["denied", "token_expired", "deferred"]
    assert [each["text"] for each in json.loads(to_json(run))["findings"]] == [each.text for each in found]
    assert to_message(run).startswith(plain(found[0].sentence(), 500))
    [event, *_] = list_events(run)
    assert event["payload"]["findings"][0]["text"] == plain(found[0].text, 500)
    with out.capture() as captured:
        for line in describe_report(run):
            out.print(line)
    shown = captured.get()
    page = write_page(tmp_path / "analytics.duckdb", tmp_path / "report.html").html
    settings = load(snapshot=Path("analytics.duckdb"), warehouse=Path("warehouse.duckdb"))
    answer = await asyncio.to_thread(status.report, settings, START)
    with out.capture() as captured:
        answer.show(as_json=False)
    now = captured.get()
    assert answer.code == 3
    for each in found:
        for output in (shown, page, now, markdown(run), to_message(run)):
            assert each.text in output
            assert all(name in output for name in each.accounts)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0 s"), (10, "10 s"), (59.6, "1 min"), (7805, "2 h 10 min"), (273_600, "3 d 4 h")]
)
def test_a_duration(seconds: float, text: str) -> None:
    assert span(seconds) == text
