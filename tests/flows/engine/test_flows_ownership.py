"""A run does not replace a file that is not a snapshot of its warehouse, and says so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.warehouse.snapshot.reader import open_snapshot
from flows.cli.output.run import show
from flows.pipeline import run_sync
from flows.reporting.events import events
from flows.reporting.exit_code import EXIT_OF
from flows.reporting.report import to_json
from flows.reporting.run_report import NOT_REPLACED, RunReport
from models.runs import RunState
from models.selection import Selection
from tests.flows.fake_api import FakeApi, Refusal, open_run_resources, request

pytestmark = pytest.mark.anyio


async def _run(folder: Path, snapshot: Path, service: FakeApi, selection: Selection | None = None) -> RunReport:
    async with open_run_resources(folder, service) as resources:
        return await run_sync(replace(request(folder), snapshot=snapshot, selection=selection), resources)


def _media(snapshot: Path) -> int:
    with open_snapshot(snapshot) as opened:
        return int(opened.query("SELECT count(*) FROM media").rows[0][0])


async def test_a_failed_run_of_an_empty_warehouse_leaves_the_snapshot(
    tmp_path: Path, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "analytics.duckdb"
    await _run(tmp_path / "good", snapshot, FakeApi())
    assert _media(snapshot) == 9
    failing = FakeApi(failure=lambda _: Refusal(401, "api_unauthorized"))
    report = await _run(tmp_path / "other", snapshot, failing)
    assert (report.state, report.snapshot_bytes) == (RunState.FAILED, None)
    assert [warning.code for warning in report.warnings] == [NOT_REPLACED]
    assert _media(snapshot) == 9
    assert json.loads(to_json(report))["snapshot_bytes"] is None
    show(report)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "is the snapshot of another warehouse and is not replaced" in lines[1]

    assert "another warehouse" in str(events(report)[0].payload)

    report = await _run(tmp_path / "other", snapshot, FakeApi(accounts=1))
    assert "was not published" in said[0]
    assert not any("interrupted" in line or "cut short" in line for line in said)
    assert (report.state, EXIT_OF[report.state], report.snapshot_bytes) == (RunState.PARTIAL, 3, None)
    assert _media(snapshot) == 9
    snapshot.rename(tmp_path / "moved.duckdb")
    report = await _run(tmp_path / "other", snapshot, FakeApi(accounts=1))
    assert (report.state, report.warnings) == (RunState.COMPLETE, ())
    assert _media(snapshot) == 3
