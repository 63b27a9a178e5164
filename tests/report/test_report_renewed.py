"""Each publish updates the configured report; its errors do not fail the run."""

from pathlib import Path

import pytest

from flows.reporting.message import to_document
from flows.reporting.page.page import MARK
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.runs import synced

pytestmark = pytest.mark.anyio


async def test_a_run_renews_the_report(tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.html"
    found = await synced(tmp_path, ListedApi(), report=target)
    assert to_document(found)["report"] == found.report == target
    page = target.read_text(encoding="utf-8")
    assert page.startswith(MARK)
    assert ">user_1<" in page


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
