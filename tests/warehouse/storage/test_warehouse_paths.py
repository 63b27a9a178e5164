"""Paths that are refused before anything is written, and paths with special characters that work."""

import os
from pathlib import Path

import pytest

from connectors.warehouse.storage.files import database, local

FINE = ("a b/c.duckdb", "~/w", "a:b", "/x/s3:/y", "ü", "a'b", 'a"b', "a#b", "a%41b", "main", "memory", "snapshot")
REFUSED = {
    **dict.fromkeys(("s3://bucket/x", "S3://bucket", "https://h/x", "file:x", ":memory:"), "not a local path"),
    **dict.fromkeys(("information_schema", "PG_CATALOG.x", "data/Core.duckdb", "next_snapshot.duckdb"), "is reserved"),
    "why?/w.duckdb": "question mark",
}


@pytest.mark.parametrize("path", FINE)
def test_paths_on_this_machine(path: str) -> None:
    assert local(Path(path)) == database(Path(path)) == Path(os.path.expanduser(path))  # noqa: PTH111 - the other rule


@pytest.mark.parametrize(("path", "message"), REFUSED.items())
def test_paths_that_duckdb_would_read_otherwise_are_refused(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        database(Path(path))


def test_a_question_mark_in_the_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "why?"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match="question mark"):
        database(Path("w.duckdb"))
    monkeypatch.chdir(tmp_path)
    folder.rmdir()
