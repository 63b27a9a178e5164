"""One list of findings: what it says, how severe it is, and that all outputs show the same."""

import asyncio
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from connectors.source.errors import ApiError
from flows.cli.commands import status
from flows.cli.commands.sync import describe_report
from flows.cli.terminal import Answer
from flows.config.settings import load
from flows.reporting.findings import list_findings
from flows.reporting.message import list_events, to_document, to_markdown, to_message
from flows.reporting.page import write_page
from flows.reporting.run_report import NO_DATA
from flows.reporting.words import plain
from models.runs import OutcomeKind
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi
from tests.clocks import START
from tests.flows.reports import failure, fields, report, stale, tokens
from tests.runs import synced

DENIED = failure(OutcomeKind.DENIED, scans=5, usernames=("anna", "ben"))
DEFERRED = failure(OutcomeKind.DEFERRED, "rate_limited", scans=9, resume_after=START + timedelta(hours=2))
LONG = failure(OutcomeKind.DEFERRED, "rate_limited", resume_after=START + timedelta(days=2))
KEY = ApiError("accounts.list", "api_unauthorized", "Authentication required.").failure
STOP = failure(OutcomeKind.FAILED, "api_unauthorized", detail="Authentication required.")
ANNA = {"ig_username": "anna", "surface": "posts", "removals_undecided_since": START, "complete_at": START}
MANY = [*tokens("anna"), *tokens("ben", "carl", is_new=False)]
REJECTED = [{"reason": "no id.", "records": 9}, {"reason": "other", "records": 3}]
GRANT = (
    "Fix: grant the key access to this account in the service's API-key settings; then `gramhouse backfill --failed`."
)

# What a report has, and the beginning of each finding, after its severity and code.
CASES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"failure_groups": (DEFERRED, failure(OutcomeKind.FAILED, "timeout"), LONG, DENIED)},
        [
            "action failed 1 scan failed (timeout, correlation id TRACE): No (anna).",
            f"action denied 5 scans denied (api_forbidden, correlation id TRACE): No (anna, ben). {GRANT}",
            "action long_cooldown 1 scan deferred until 2026-03-03 02:15:00 UTC (rate_limited, correlation id",
            "warning deferred 9 scans deferred until 2026-03-01 04:15:00 UTC (rate_limited,",
        ],
    ),
    (
        {"failure_groups": (replace(DENIED, scans=50), STOP), "stopped_by": KEY},
        ["action failed 1 scan failed (api_unauthorized", "action denied 50 scans"],
    ),
    ({"stopped_by": KEY}, ["action failed The run stopped (api_unauthorized): Authentication required. Fix: "]),
    ({"expired": MANY}, ["warning token_expired 3 access tokens expired, 1 of them newly (anna, ben and 1 more)"]),
    (stale("anna", "ben"), ["action stale 2 of 100 accounts: posts not refreshed within 1 d 12 h; the oldest is"]),
    ({"undecided": [ANNA]}, ["action removals_undecided no missing items of 1 account were marked as removed"]),
    ({"recent": [{}], "gaps": [ANNA]}, ["warning gap 1 scan ended early and left a gap, which the next scan"]),
    ({"quarantine": REJECTED}, ["warning quarantine 12 records in quarantine: no id. Fix: `gramhouse quar"]),
    ({"new_fields": fields(*"abcdef")}, ["information new_fields 6 new fields: a (VARCHAR), b (VARCHAR), c ("]),
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_the_findings_of_a_report(changes: dict[str, Any], expected: list[str]) -> None:
    data = {name: changes[name] for name in changes if name in NO_DATA}
    found = list_findings(report(data, **{name: changes[name] for name in changes if name not in NO_DATA}))
    for each, begin in zip(found, expected, strict=True):
        assert f"{each.severity} {each.code} {each.sentence(2)}".startswith(begin)


def _trouble(asked: Asked) -> Action | None:
    if asked.is_posts(1):
        return refuse("api_forbidden")
    return refuse("rate_limited", retry_after=7200) if asked.is_posts(2) else None


def _printed(answer: Answer) -> str:
    with redirect_stdout(StringIO()) as printed:
        answer.show(as_json=False)
    return printed.getvalue()


@pytest.mark.anyio
async def test_every_output_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary, its JSON, Prefect's message, page and event, the status and the HTML report."""
    monkeypatch.chdir(tmp_path)
    run = await synced(tmp_path, ListedApi(accounts=4, expired=frozenset({3}), fault=_trouble))
    found = list_findings(run)
    assert [each.code for each in found] == ["denied", "deferred", "token_expired"]
    assert [each["text"] for each in to_document(run)["findings"]] == [each.text for each in found]
    assert to_message(run).startswith(plain(found[0].sentence(), 500))
    [event, *_] = list_events(run)
    assert event["payload"]["findings"][0]["text"] == plain(found[0].text, 500)
    page = write_page(tmp_path / "analytics.duckdb", tmp_path / "report.html").html
    settings = load(snapshot="analytics.duckdb", warehouse=Path("warehouse.duckdb"))
    answer = status.answer(await asyncio.to_thread(status.read_status, settings, START))
    shown, now = _printed(Answer(None, describe_report(run))), _printed(answer)
    assert answer.code == 3
    for each in found:
        for output in (shown, page, now, to_markdown(run), to_message(run)):
            assert each.text in output
            assert all(name in output for name in each.accounts)
