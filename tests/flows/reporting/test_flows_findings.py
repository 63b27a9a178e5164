"""One list of findings: what it says, how severe it is, and that all outputs show the same."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.source.errors import client_error
from flows.cli.commands import status
from flows.cli.output.run import show
from flows.config.settings import load
from flows.orchestration.flow_run import final_state
from flows.reporting.findings import Finding, Severity, list_findings
from flows.reporting.for_prefect import events, markdown
from flows.reporting.message import to_json, to_message
from flows.reporting.page.write import write_page
from flows.reporting.words import plain
from models.runs import OutcomeKind, RunState, RunWarning
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi
from tests.clocks import START
from tests.flows.reports import failure, fields, report, stale, tokens
from tests.runs import synced

ACTION, WARNING, INFORMATION = Severity


def only(found: list[Finding]) -> Finding:
    [finding] = found
    return finding


def test_a_failure_names_its_cause_its_accounts_and_the_fix() -> None:
    denied = failure(OutcomeKind.DENIED, scans=5, usernames=("anna", "ben"))
    found = only(list_findings(report(failure_groups=(denied,))))
    assert (found.code, found.severity, found.accounts) == ("denied", ACTION, ("anna", "ben"))
    assert found.sentence() == (
        "5 scans denied (api_forbidden, correlation id TRACE): No (anna, ben). Fix: grant the key access to this"
        " account in the service's API-key settings; then `gramhouse backfill --failed`."
    )


def test_an_outage_may_pass_and_a_deferred_scan_resumes() -> None:
    outage = failure(OutcomeKind.FAILED, "timeout")
    deferred = failure(OutcomeKind.DEFERRED, "rate_limited", scans=9, resume_after=START + timedelta(hours=2))
    long = failure(OutcomeKind.DEFERRED, "rate_limited", resume_after=START + timedelta(days=2))
    asked, passing, resumed = list_findings(report(failure_groups=(deferred, outage, long)))
    assert (asked.code, asked.severity) == ("long_cooldown", ACTION)
    assert "until 2026-03-03 02:15:00 UTC" in asked.text
    assert "`gramhouse doctor --repair` lifts it" in asked.fix
    assert (passing.code, passing.severity) == ("failed", WARNING)
    assert (resumed.code, resumed.severity, resumed.fix) == ("deferred", WARNING, "")
    assert resumed.text.startswith("9 scans deferred until 2026-03-01 04:15:00 UTC (rate_limited,")
    assert resumed.text.endswith("a later run resumes them")


def test_the_error_that_stopped_a_run_is_first() -> None:
    many = failure(OutcomeKind.DENIED, scans=50)
    stop = failure(OutcomeKind.FAILED, "api_unauthorized", detail="Authentication required.")
    stopped = report(
        failure_groups=(many, stop),
        stopped_by=client_error("accounts.list", "api_unauthorized", "Authentication required.").failure,
    )
    assert [each.code for each in list_findings(stopped)] == ["failed", "denied"]
    [alone] = list_findings(replace(stopped, failure_groups=()))
    assert (alone.severity, alone.text) == (
        ACTION,
        "The run stopped (api_unauthorized): Authentication required",
    )
    assert alone.fix


def test_an_expired_token_is_an_action_for_the_owner() -> None:
    data = {"expired": [*tokens("anna"), *tokens("ben", "carl", is_new=False)], "renewed": tokens("dora")}
    expired, renewed = list_findings(report(data))
    assert (expired.code, expired.severity, expired.accounts) == ("token_expired", ACTION, ("anna", "ben", "carl"))
    assert expired.sentence(2) == (
        "3 access tokens expired, 1 of them newly (anna, ben and 1 more)."
        " Fix: the owner must reconnect the account; the next sync then fetches its media."
    )
    assert (renewed.severity, renewed.accounts) == (INFORMATION, ("dora",))


def test_the_state_of_the_data() -> None:
    rejected = {"account_id": "1", "ig_username": "anna", "surface": "posts", "removals_undecided_since": START}
    overdue = {"account_id": "2", "ig_username": "ben", "complete_at": START}
    gap = {"account_id": "3", "ig_username": None, "surface": "posts"}
    data: dict[str, list[dict[str, Any]]] = {
        **stale("anna", "ben"),
        "undecided": [rejected],
        "recent": [{}],
        "full_overdue": [overdue],
        "gaps": [gap],
        "quarantine": [{"reason": "no id.", "records": 9}, {"reason": "other", "records": 3}],
        "new_fields": fields("/mood", "/b", "/c", "/d", "/e", "/f"),
    }
    found = {each.code: each for each in list_findings(report(data, mapping_pending=True, restarted=2))}
    assert [(code, each.severity) for code, each in found.items()] == [
        ("stale", ACTION),
        ("removals_undecided", ACTION),
        ("full_overdue", ACTION),
        ("gap", WARNING),
        ("quarantine", WARNING),
        ("mapping_pending", WARNING),
        ("new_fields", INFORMATION),
        ("restarted", INFORMATION),
    ]
    assert found["stale"].sentence() == (
        "2 of 100 accounts: posts not refreshed within 1 d 12 h; the oldest is 2 d old (anna, ben)."
        " Fix: `gramhouse sync`."
    )
    assert "since 2026-03-01 02:15 UTC" in found["removals_undecided"].text
    assert found["full_overdue"].fix == "increase GRAMHOUSE_FULL_REFRESH_BUDGET"
    assert found["gap"].accounts == ("3",)
    assert found["quarantine"].text == "12 records in quarantine: no id"
    assert found["new_fields"].text.endswith("/e (VARCHAR) and 1 more")


def test_warnings_of_a_run_are_as_severe_as_their_effect() -> None:
    missing = RunWarning("accounts_missing", 30, "30 accounts are missing.", "Check the key.", makes_partial=True)
    noted, read = RunWarning("values_not_cast", 2, "Two.", "Look."), RunWarning("accounts_removed", 1, "One.")
    found = list_findings(report(warnings=(noted, read, missing), accounts_removed=1))
    assert [(each.code, each.severity) for each in found] == [
        ("accounts_missing", ACTION),
        ("values_not_cast", WARNING),
        ("accounts_removed", INFORMATION),
    ]
    assert found[0].sentence() == "30 accounts are missing. Fix: Check the key."
    assert "1 account marked removed" in only(list_findings(report(accounts_removed=1))).text


def _trouble(asked: Asked) -> Action | None:
    if asked.is_posts(1):
        return refuse("api_forbidden")
    return refuse("rate_limited", retry_after=7200) if asked.is_posts(2) else None


@pytest.mark.anyio
@pytest.mark.prefect
async def test_every_output_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary, its JSON, Prefect's message, page and event, the status and the HTML report."""
    monkeypatch.chdir(tmp_path)
    service = ListedApi(accounts=4, expired=frozenset({3}), fault=_trouble)
    run = await synced(tmp_path, service)
    found = list_findings(run)
    assert [each.code for each in found] == ["denied", "token_expired", "deferred"]
    assert (run.state, final_state(run).type.value) == (RunState.PARTIAL, "COMPLETED")
    assert [each["text"] for each in json.loads(to_json(run))["findings"]] == [each.text for each in found]
    assert str(final_state(run).message).startswith(plain(found[0].sentence(), 500))
    [event, *_] = events(run)
    assert event.payload["findings"][0]["text"] == plain(found[0].text, 500)
    show(run)
    shown = capsys.readouterr().out
    write_page(tmp_path / "analytics.duckdb", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    settings = load(snapshot=Path("analytics.duckdb"), warehouse=Path("warehouse.duckdb"))
    assert await asyncio.to_thread(status.report, settings, START) == 3
    now = capsys.readouterr().out
    for each in found:
        for output in (shown, page, now, markdown(run), to_message(run)):
            assert each.text in output
            assert all(name in output for name in each.accounts)
