"""The permissions of written files, and protection against planted symlinks."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.warehouse.maintenance.compact_file import rewrite_file
from connectors.warehouse.queries.export import export
from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.holder import hold
from flows.cli.commands import doctor as checks
from flows.config.settings import Settings
from models.errors import WarehouseUnusable
from tests.warehouse.rig import POSTS, opened


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


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_permissions_of_data_files_follow_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "data"
    before = os.umask(umask)
    try:
        folder.mkdir()
        with hold(folder / "warehouse.duckdb", "a test", since="now", pause=lambda _: None):
            _merge(folder)
            _publish(folder)
        export(folder / "analytics.duckdb", folder / "out")
    finally:
        os.umask(before)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".duckdb", ".lock", ".parquet"}
    snapshot = folder / "analytics.duckdb"
    files.remove(snapshot)
    # Analysts read it.
    assert _rights(snapshot) == 0o444
    assert {_rights(path) & umask for path in [folder, *folder.rglob("*")] if path != snapshot} == {0}
    assert {_rights(path) & 0o133 for path in files} == {0}


def _publish(folder: Path) -> None:
    with opened(folder) as rig:
        rig.publish()


def _merge(folder: Path) -> None:
    with opened(folder) as rig:
        rig.scan(POSTS, 0, [{"id": "1"}])


def _open(folder: Path) -> None:
    with pytest.raises(WarehouseUnusable), open_warehouse(folder / "warehouse.duckdb"):
        pass


def _compact(folder: Path) -> None:
    _merge(folder)
    rewrite_file(folder / "warehouse.duckdb")


def _lock(folder: Path) -> None:
    with pytest.raises(WarehouseUnusable), hold(folder / "w.duckdb", "a test", since="now", pause=lambda _: None):
        pass


@pytest.mark.parametrize(
    ("name", "work"),
    [
        (".analytics.duckdb.next", _publish),
        (".analytics.duckdb.next.wal", _publish),
        ("raw/.next.parquet", _merge),
        (".warehouse.duckdb.compacted", _compact),
        ("warehouse.duckdb", _open),
        ("w.duckdb.lock", _lock),
    ],
)
def test_a_link_in_place_of_a_file_changes_no_other(
    tmp_path: Path, victim: Path, name: str, work: Callable[[Path], None]
) -> None:
    link = tmp_path / "data" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(victim)
    work(tmp_path / "data")
    assert {path.name for path in (tmp_path / "data").rglob("*") if path.is_symlink()} <= {link.name}


def test_a_link_in_place_of_the_export_draft_is_refused(tmp_path: Path, victim: Path) -> None:
    _publish(tmp_path)
    (tmp_path / ".out.exporting").symlink_to(victim.parent)
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
