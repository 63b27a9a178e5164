"""The command `gramhouse report`."""

import errno
import json
import os
from pathlib import Path

import pytest

from flows.reporting.page.page import MARK
from tests.cli_runner import Cli
from tests.report.snapshots import FIRST


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)


def test_a_report_is_written_next_to_the_snapshot_by_default(run: Cli, snapshot: Path) -> None:
    code, message, errors = run("report", "--snapshot", str(snapshot))
    index = snapshot.with_name("report.html")
    assert (code, errors) == (0, "")
    assert message.startswith(f"✔ {index} (")
    assert "the snapshot of 2026-03-03 02:15 UTC" in message
    assert index.read_text(encoding="utf-8").startswith(MARK)
    assert list(index.parent.glob(".report*")) == []


def test_a_named_file_in_a_new_folder_and_json(run: Cli, snapshot: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "page.html"
    for _ in range(2):
        # An earlier report is replaced.
        code, message, errors = run("report", str(target), "--snapshot", str(snapshot), "--json")
        assert (code, errors) == (0, "")
        document = json.loads(message)
        assert document["report"] == str(target)
        assert document["report_bytes"] == target.stat().st_size
        assert document["published_at"].startswith(f"{FIRST:%Y-%m}-03")
        assert document["action_required"] > 0
        assert document["exit_code"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["folder"], 2, "folder is a folder. Fix: choose another file."),
        (["notes.txt"], 2, "notes.txt is not a gramhouse report and is not replaced. Fix:"),
        (["$snapshot", "--snapshot", "$snapshot"], 2, ".duckdb is reserved for a database. Fix:"),
        (["s3://bucket/page.html"], 2, "FILE: it is not a local path (got"),
        (["notes.txt/page.html"], 1, "cannot write the report notes.txt/page.html: notes.txt is not a folder. Fix:"),
        (["page.html", "--account", "none.here"], 2, "--account: the snapshot has no account 'none.here'. "),
        (["page.html", "--surface", "reels"], 2, "--surface: 'reels' is not a surface"),
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


def test_a_page_that_cannot_be_written_leaves_the_old_one(
    run: Cli, snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.html"
    target.write_text(MARK + "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    code, _, errors = run("report", str(target), "--snapshot", str(snapshot))
    assert code == 1
    assert "page.html: No space left on device. Fix: free space on the disk and retry; " in errors
    assert target.read_text() == MARK + "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
