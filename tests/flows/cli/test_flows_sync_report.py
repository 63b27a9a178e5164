"""The output of a run in a pipe and as JSON."""

import json
from pathlib import Path

import pytest

from flows.cli.output.sync_report import show
from flows.engine.pipeline import run_sync
from flows.reporting.report import to_json
from tests.flows.fake_api import FakeApi, Refusal, is_posts, open_run_resources, request


@pytest.mark.anyio
async def test_lines_in_a_pipe_end_without_blanks_and_concerns_have_hints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FakeApi(
        failure=lambda request: Refusal(404, "api_automation_media_not_found") if is_posts(request, 1) else None
    )
    async with open_run_resources(tmp_path, service) as resources:
        report = await run_sync(request(tmp_path), resources)
    show(report)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert lines == [line.rstrip() for line in lines]
    (failure_group,) = json.loads(to_json(report))["failure_groups"]
    assert failure_group["hint"]
