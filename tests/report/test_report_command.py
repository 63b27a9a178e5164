"""The command `gramhouse report`."""

import json
from pathlib import Path

import pytest

from flows.reporting.page.page import MARK
from tests.operator import Cli, run_here


@pytest.fixture
def run() -> Cli:
    return run_here


def test_a_report_is_written_next_to_the_snapshot_or_to_a_named_file(run: Cli, snapshot: Path, tmp_path: Path) -> None:
    code, message, errors = run("report", "--snapshot", str(snapshot))
    index = snapshot.with_name("report.html")
    assert (code, errors) == (0, "")
    assert message.startswith(f"✔ {index} (")
    assert "the snapshot of 2026-03-03 02:15 UTC" in message
    assert index.read_text(encoding="utf-8").startswith(MARK)
    assert list(index.parent.glob(".report*")) == []
    target = tmp_path / "new" / "folder" / "page.html"
    for _ in range(2):
        # An earlier report is replaced.
        document = json.loads(run("report", str(target), "--snapshot", str(snapshot), "--json")[1])
        assert (document["report"], document["report_bytes"]) == (str(target), target.stat().st_size)
        assert (document["exit_code"], document["published_at"][:10]) == (0, "2026-03-03")
        assert document["action_required"] > 0


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
    run: Cli,
    snapshot: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    found, printed, errors = run("report", *(str(snapshot) if each == "$snapshot" else each for each in arguments))
    assert (found, printed) == (code, "")
    assert len(errors.splitlines()) == 1
    assert message in errors
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "page.html").exists()
