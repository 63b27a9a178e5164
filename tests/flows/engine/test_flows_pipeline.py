"""A whole run in this process: the client, the sandbox over ASGI, and a warehouse on disk."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from connectors.source.errors import client_error
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.engine import closing
from flows.pipeline import run_sync
from flows.reporting.findings import list_findings
from flows.reporting.message import describe_outcomes, to_json, to_message
from flows.reporting.reader import Reader
from flows.reporting.run_report import RunReport, last_report
from flows.reporting.words import changes
from models.findings import Finding, Severity
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.runs import open_run_resources, request, rows, synced

pytestmark = pytest.mark.anyio


@pytest.fixture
async def report(tmp_path: Path) -> RunReport:
    return await synced(tmp_path, ListedApi(accounts=2, posts=3, expired=frozenset({2})))


async def test_a_report_in_words(report: RunReport) -> None:
    assert to_message(report) == (
        "1 access token newly expired (user_2). Fix: the owner must reconnect the account; the next"
        " sync then fetches its media. sync 2026-03-01 02:15 UTC: 2 accounts listed; 4 pages, 5 records landed;"
        " media: 3 new; scans: 3 complete, 2 skipped; requests: 4."
    )
    assert describe_outcomes(report) == "3 complete, 2 skipped"
    assert changes(replace(report.media, added=0)) == "nothing changed"


async def test_runs_with_the_same_resources_count_their_own_requests(tmp_path: Path) -> None:
    async with open_run_resources(tmp_path, ListedApi(accounts=2, posts=3)) as resources:
        reports = [await run_sync(request(tmp_path), resources) for _ in range(2)]
    assert [each.requests for each in reports] == [7, 7]


async def test_a_report_for_programs(report: RunReport) -> None:
    result = json.loads(to_json(report))
    assert (result["state"], result["exit_code"], result["accounts"], result["expired_accounts"]) == (
        "complete",
        0,
        2,
        1,
    )
    assert result["outcomes"] == {
        "complete": 3,
        "recent": 0,
        "skipped": 2,
        "deferred": 0,
        "denied": 0,
        "not_found": 0,
        "failed": 0,
    }
    assert result["stopped_by"] is None
    stopped = client_error("accounts.list", "certificate_refused", "no").failure
    result = json.loads(to_json(replace(report, state=RunState.FAILED, stopped_by=stopped)))
    assert (result["exit_code"], result["stopped_by"]["code"]) == (1, "certificate_refused")
    assert set(result["stopped_by"]) == {"code", "status", "correlation_id", "message", "hint"}


async def test_a_run_that_could_not_publish_is_carried_on_and_asks_for_nothing(tmp_path: Path) -> None:
    service = ListedApi()
    in_the_way = tmp_path / ".analytics.duckdb.next"
    in_the_way.mkdir()
    async with open_run_resources(tmp_path, service) as resources:
        with pytest.raises(WarehouseUnusable):
            await run_sync(request(tmp_path), resources)
        asked = len(service.requests)
        in_the_way.rmdir()
        report = await run_sync(request(tmp_path), resources)
        assert len(report.resumed_runs) == 1
        assert report.state is RunState.COMPLETE
        assert len(service.requests) == asked
        assert (tmp_path / "analytics.duckdb").is_file()
        again = await run_sync(request(tmp_path), resources)
        assert again.resumed_runs == ()
        assert len(service.requests) == 2 * asked


async def test_a_warning_makes_a_run_partial_and_is_in_its_report_its_row_and_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_run_resources(tmp_path, ListedApi()) as resources:
        missing = Finding("accounts_missing", Severity.ACTION, "30 accounts are missing", "check the key", count=30)
        noted = Finding("values_not_cast", Severity.INFORMATION, "2 values could not be cast", count=2)

        async def find(*_: object) -> list[Finding]:
            return [noted, missing]

        monkeypatch.setattr(closing, "find_warnings", find)
        report = await run_sync(request(tmp_path), resources)
        assert (report.state, report.warnings) == (RunState.PARTIAL, (missing, noted))
        assert await rows(resources, "SELECT state, error_code, detail FROM core.runs") == [
            ("partial", "accounts_missing", "30 accounts are missing")
        ]
    found = json.loads(to_json(report))["findings"]
    assert found == [asdict(each) | {"accounts": []} for each in (missing, noted)]
    assert to_message(report).startswith("30 accounts are missing. Fix: check the key. sync ")
    with open_snapshot(tmp_path / "analytics.duckdb") as snapshot:
        last = last_report(Reader(snapshot))
    assert last is not None
    assert (last.run_id, last.warnings, list_findings(last)) == (report.run_id, report.warnings, list_findings(report))


async def test_values_that_were_lost_are_reported_at_every_runs_end(tmp_path: Path) -> None:
    unreadable = ListedApi(accounts=2, change_posts=lambda items: [{**item, "timestamp": "soon"} for item in items])
    for _ in range(2):
        report = await synced(tmp_path, unreadable)
        (warning,) = report.warnings
        assert (warning.code, warning.count, report.state) == ("values_not_cast", 6, RunState.COMPLETE)
        assert "published_at (6)" in to_message(report)
    with open_snapshot(tmp_path / "analytics.duckdb") as snapshot:
        assert snapshot.query("SELECT count(*) FROM run_warnings WHERE code = 'values_not_cast'").rows == [(2,)]
