"""Each publish updates the configured report; its errors do not fail the run."""

from pathlib import Path

import pytest

from models.runs import RunState
from tests.api.listed import ListedApi
from tests.runs import synced

pytestmark = pytest.mark.anyio


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
