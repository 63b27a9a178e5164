"""The permissions of written files, and protection against planted symlinks."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.warehouse.queries.export import export
from flows.cli.commands import doctor as checks
from flows.config.settings import Settings
from models.files import WarehouseUnusable
from tests.api.listed import ListedApi
from tests.operator import KEY, Operator
from tests.warehouse.rig import opened


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file that must not change."""
    path = tmp_path / "victim"
    path.write_text("precious, and longer than DuckDB's header " * 400)
    before = path.read_bytes()
    yield path
    assert path.read_bytes() == before


def _rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def service() -> Iterator[ListedApi]:
    with ListedApi().serve() as serving:
        yield serving


@pytest.fixture
def operator(tmp_path: Path, service: ListedApi) -> Operator:
    return Operator(tmp_path / "data", {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY}, here=True)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_permissions_of_data_files_follow_the_umask(operator: Operator, umask: int) -> None:
    before = os.umask(umask)
    try:
        operator.run("sync")
        operator.run("export", str(operator.folder / "out"))
    finally:
        os.umask(before)
    files = [path for path in operator.folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".duckdb", ".lock", ".sqlite", ".parquet"}
    files.remove(operator.snapshot)
    # Analysts read it.
    assert _rights(operator.snapshot) == 0o444
    folders = [operator.folder, operator.folder / "raw", operator.folder / "out"]
    assert {_rights(path) & umask for path in (*files, *folders)} == {0}
    assert {_rights(path) & 0o133 for path in files} == {0}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (".analytics.duckdb.next", 0),
        (".analytics.duckdb.next.wal", 0),
        ("raw/ID/.next.parquet", 0),
        (".warehouse.duckdb.compacted", 0),
        ("warehouse.duckdb", 1),
        ("warehouse.duckdb.lock", 1),
    ],
)
def test_a_link_in_place_of_a_file_changes_no_other(
    operator: Operator, service: ListedApi, victim: Path, name: str, code: int
) -> None:
    operator.run("sync")
    [of_warehouse] = (operator.folder / "raw").iterdir()
    link = operator.folder / name.replace("ID", of_warehouse.name)
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    service.posts += 1
    for command in ("compact", "sync"):
        operator.run(command, code=code)
    assert {path.name for path in operator.folder.rglob("*") if path.is_symlink()} <= {link.name}


def test_a_link_in_place_of_the_export_draft_is_refused(tmp_path: Path, victim: Path) -> None:
    with opened(tmp_path) as rig:
        rig.publish()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".exporting").symlink_to(victim.parent)
    with pytest.raises(WarehouseUnusable):
        export(tmp_path / "analytics.duckdb", tmp_path / "out")


def test_the_key_file_is_seen_to_be_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_text("k" * 20)
    monkeypatch.chdir(tmp_path)
    settings = Settings(api_key_file=key, base_url="https://api.example")
    for mode, message in ((0o644, True), (0o640, True), (0o600, False), (0o400, False)):
        key.chmod(mode)
        text = [found["message"] for found in checks.find(settings, ["key"])]
        assert any("other users can read" in line for line in text) is message
