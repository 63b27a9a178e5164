"""The command `gramhouse report`, and the report of a run."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.reporting.page import MARK
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.operator import run_here
from tests.runs import synced


def test_a_report_is_written_next_to_the_snapshot_or_to_a_named_file(snapshot: Path, tmp_path: Path) -> None:
    code, message, errors = run_here("report", "--snapshot", str(snapshot))
    index = snapshot.with_name("report.html")
    assert (code, errors) == (0, "")
    assert str(index) in message
    assert "2026-03-03 02:15" in message
    assert index.read_text(encoding="utf-8").startswith(MARK)
    assert list(index.parent.glob(".report*")) == []
    target = tmp_path / "new" / "folder" / "page.html"
    for _ in range(2):
        # An earlier report is replaced.
        document = json.loads(run_here("report", str(target), "--snapshot", str(snapshot), "--json")[1])
        assert (document["report"], document["report_bytes"]) == (str(target), target.stat().st_size)
        assert (document["exit_code"], document["published_at"][:10]) == (0, "2026-03-03")
        assert document["action_required"] > 0


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    """A folder with a folder and a file that are no reports, and are not changed."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    yield tmp_path
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["folder"], 2, "folder is not a gramhouse report and is not replaced. Fix: choose another file."),
        (["$snapshot", "--snapshot", "$snapshot"], 2, ".duckdb is not a gramhouse report and is not replaced. Fix:"),
        (["notes.txt/page.html"], 1, "notes.txt: File exists. Fix: check path, permissions and disk."),
        (["page.html", "--account", "none.here"], 2, "There is no account 'none.here' in the warehouse. "),
        (["page.html", "--snapshot", "none.duckdb"], 1, "There is no snapshot at none.duckdb yet"),
    ],
)
def test_bad_input_gets_one_line(
    snapshot: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    found, printed, errors = run_here("report", *(str(snapshot) if each == "$snapshot" else each for each in arguments))
    assert (found, printed) == (code, "")
    [line] = errors.splitlines()
    assert message in line
    assert not (mine / "page.html").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["folder", "notes.txt/page.html"])
async def test_a_run_whose_report_fails_says_so_and_is_complete(mine: Path, said: list[str], name: str) -> None:
    found = await synced(mine, ListedApi(), report=mine / name)
    assert (found.state, found.report) == (RunState.COMPLETE, None)
    [line] = said
    assert re.match("The report was not updated: .*Fix: ", line)
