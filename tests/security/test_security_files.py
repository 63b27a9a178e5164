"""The permissions of written files, and protection against planted symlinks."""

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.warehouse.queries.export import export
from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.holder import Held, hold, lock, lock_path
from flows.cli.commands import doctor as checks
from flows.cli.output.terminal import describe_check
from flows.config.errors import ProcessError
from flows.config.settings import Settings
from flows.orchestration.processes import free_port, prefect
from tests.warehouse.days import POSTS, account, opened_days

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(params=[0o022, 0o077], ids=["umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield int(request.param)
    os.umask(before)


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


def _made(folder: Path) -> None:
    """A warehouse with its raw store, its snapshot and an export, all in a folder."""
    folder.mkdir()
    with (
        hold(folder / "warehouse.duckdb", "a test", since="now", pause=lambda _: None),
        opened_days(folder) as days,
    ):
        days.catalogue(0, [account()])
        days.scan(POSTS, 0, [{"id": "1"}])
        days.publish()
    export(folder / "analytics.duckdb", folder / "out")


def test_permissions_of_data_files_follow_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "data"
    _made(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".duckdb", ".lock", ".parquet"}
    snapshot = folder / "analytics.duckdb"
    files.remove(snapshot)
    # Analysts read it.
    assert _rights(snapshot) == 0o444
    assert {_rights(path) & umask for path in [folder, *folder.rglob("*")] if path != snapshot} == {0}
    assert {_rights(path) & 0o133 for path in files} == {0}


@pytest.mark.parametrize("name", [".analytics.duckdb.next", ".analytics.duckdb.next.wal"])
def test_a_link_in_place_of_the_snapshots_draft_changes_no_file(tmp_path: Path, victim: Path, name: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with opened_days(folder) as days:
        days.publish()
    assert not (folder / "analytics.duckdb").is_symlink()


def test_a_log_beside_the_old_snapshot_is_not_replayed_into_the_new_one(tmp_path: Path) -> None:
    with opened_days(tmp_path) as days:
        days.publish()
        (tmp_path / "analytics.duckdb.wal").touch()
        days.publish()
    assert not (tmp_path / "analytics.duckdb.wal").exists()


def test_a_link_in_place_of_the_export_draft_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").write_text("precious")
    with opened_days(tmp_path) as days:
        days.publish()
    (tmp_path / ".out.exporting").symlink_to(victim)
    with pytest.raises(WarehouseUnusable):
        export(tmp_path / "analytics.duckdb", tmp_path / "out")
    assert [path.name for path in victim.iterdir()] == ["kept"]


def test_a_link_in_the_raw_stores_draft_overwrites_no_other_file(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / ".next.parquet").symlink_to(victim)
    with opened_days(tmp_path) as days:
        days.scan(POSTS, 0, [{"id": "1"}])
    [part] = (tmp_path / "raw").iterdir()
    assert not part.is_symlink()


def test_a_link_to_another_file_is_not_a_warehouse(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "warehouse.duckdb").symlink_to(victim)
    with pytest.raises(WarehouseUnusable), open_warehouse(tmp_path / "warehouse.duckdb"):
        pass


def test_a_link_in_the_locks_place_empties_no_other_file(tmp_path: Path, victim: Path) -> None:
    lock_path(tmp_path / "w.duckdb").symlink_to(victim)
    try:
        with lock(lock_path(tmp_path / "w.duckdb"), "a test", since="now", pause=lambda _: None):
            pass
    except (OSError, Held):
        pass


def test_prefects_home_is_private(tmp_path: Path) -> None:
    home = tmp_path / "prefect"
    home.mkdir()
    home.chmod(0o755)
    # It does not start, and its folder is made private before.
    (home / "prefect.db").write_bytes(b"no database" * 1000)
    with pytest.raises(ProcessError), prefect(home, free_port(), tmp_path / "report.html"):
        pass
    assert _rights(home) == 0o700


def test_the_key_file_is_seen_to_be_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key"
    key.write_text("k" * 20)
    monkeypatch.chdir(tmp_path)
    settings = Settings(api_key_file=key, base_url="https://api.example")
    for mode, message in ((0o644, True), (0o640, True), (0o600, False), (0o400, False)):
        key.chmod(mode)
        text = [describe_check(finding) for finding in checks.find(settings, ["key"])]
        assert any("other users can read" in line for line in text) is message
