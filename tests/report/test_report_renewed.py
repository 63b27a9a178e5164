"""Each publish updates the configured report; its errors do not fail the run."""

import json
from pathlib import Path

import pytest

from flows.config.settings import load
from flows.engine.upkeep import publish_now
from flows.reporting.message import to_json
from flows.reporting.page.page import MARK
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.runs import synced

pytestmark = pytest.mark.anyio


async def test_a_run_and_publish_renew_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "page.html"
    target.write_text(MARK + "old")
    found = await synced(tmp_path, ListedApi(), report=target)
    assert json.loads(to_json(found))["report"] == str(found.report) == str(target)
    page = target.read_text(encoding="utf-8")
    assert page.startswith(MARK)
    assert ">user_1<" in page
    places = {"warehouse": "warehouse.duckdb", "snapshot": "analytics.duckdb", "report": "new/page.html"}
    for name, value in places.items():
        monkeypatch.setenv(f"GRAMHOUSE_{name.upper()}", str(tmp_path / value))
    await publish_now(load())
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8").startswith(MARK)


@pytest.mark.parametrize("name", ["folder", "notes.txt/page.html"])
async def test_a_failed_report_is_reported_in_one_line_and_the_run_is_complete(
    tmp_path: Path, said: list[str], name: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    found = await synced(tmp_path, ListedApi(), report=tmp_path / name)
    assert (found.state, found.report) == (RunState.COMPLETE, None)
    [line] = said
    assert line.startswith("The report was not updated: ")
    assert "Fix:" in line
    assert (tmp_path / "notes.txt").read_text() == "mine"
