"""Paths that are refused before anything is written, and paths with special characters that work."""

import os
import shutil
from pathlib import Path

import pytest

from connectors.warehouse.storage.paths import database, local


@pytest.mark.parametrize("path", ["a b/c.duckdb", "~/w", "a:b", "/x/s3:/y", "ü", "a'b", 'a"b', "a#b", "a%41b", "x?"])
def test_paths_on_this_machine(path: str) -> None:
    assert local(Path(path)) == Path(os.path.expanduser(path))  # noqa: PTH111 - what it is compared with


@pytest.mark.parametrize(
    "path",
    ["s3://bucket/x", "S3://bucket", "https://h/x", "file:x", ":memory:"],
)
def test_paths_that_are_not_local_are_refused(path: str) -> None:
    for check in (local, database):
        with pytest.raises(ValueError, match="not a local path"):
            check(Path(path))


@pytest.mark.parametrize("name", ["information_schema", "PG_CATALOG", "Core", "next_snapshot"])
def test_names_that_duckdb_uses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"the name {name} is reserved"):
        database(Path(f"data/{name}.duckdb"))


@pytest.mark.parametrize("name", ["main", "system", "temp", "memory", "snapshot", "information_schemas"])
def test_other_names_are_fine(name: str) -> None:
    assert database(Path(f"{name}.duckdb")) == Path(f"{name}.duckdb")


def test_a_question_mark_anywhere_in_the_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="question mark"):
        database(Path("why?/w.duckdb"))
    folder = tmp_path / "why?"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match="question mark"):
        database(Path("w.duckdb"))
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(folder)
