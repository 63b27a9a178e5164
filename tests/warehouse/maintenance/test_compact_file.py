"""Compacting: the same rows in a small, sorted file, or the old file unchanged."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.maintenance import compact_file as module
from connectors.warehouse.maintenance.compact_file import rewrite_file, size_of
from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.config.settings import Settings
from flows.engine.files import open_files

Row = tuple[Any, ...]

ROOT = Path(__file__).parents[3]

DIES = """
import os, sys
from pathlib import Path
from connectors.warehouse.maintenance import compact_file as module
setattr(module, sys.argv[2], lambda *_: os._exit(9))
module.rewrite_file(Path(sys.argv[1]))
"""

OPENS = """
import sys, duckdb
try:
    duckdb.connect(sys.argv[1]).close()
except duckdb.IOException:
    print("refused")
"""

# An item per hour of four accounts, unordered; every tenth has no time.
MEDIA = """
INSERT INTO core.media BY NAME
SELECT
    'account-' || (n % 4) AS account_id, CASE WHEN n % 3 = 0 THEN 'stories' ELSE 'posts' END AS surface,
    lpad(n::VARCHAR, 6, '0') AS media_id, repeat(md5(n::VARCHAR), 10) AS caption, 'a "name"' AS "order",
    CASE WHEN n % 10 != 0 THEN TIMESTAMPTZ '2026-01-01' + INTERVAL (n * 7919 % 4000) HOUR END AS published_at,
    n AS content_hash, n AS payload_hash, n AS raw_landed, 0 AS raw_position, n AS seen_seq, n AS present_seq,
    now() AS first_seen_at, now() AS last_seen_at, now() AS changed_at, now() AS content_changed_at
FROM range(1000) AS t(n)
"""

METRICS = """
INSERT INTO core.media_counts
SELECT account_id, surface, media_id, 'like_count', hash(media_id) % 100, changed_at, 1 FROM core.media
"""

COLUMNS = (
    "SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment"
    " FROM duckdb_columns() WHERE NOT internal ORDER BY schema_name, table_name, column_index"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with discovered columns, a user's view, the views of a snapshot, and much free space."""
    path = tmp_path_factory.mktemp("made") / "warehouse.duckdb"
    with open_warehouse(path) as db:
        db.execute("CREATE TABLE core.gone AS SELECT md5(n::VARCHAR) AS it FROM range(100000) AS t(n)")
    with open_warehouse(path) as db:
        for statement in (
            "DROP TABLE core.gone",
            'ALTER TABLE core.media ADD COLUMN "order" VARCHAR',
            "COMMENT ON COLUMN core.media.\"order\" IS 'Discovered: it''s /order.'",
            "CREATE TABLE core.media_notes AS SELECT unnest([3, 1, 2]) AS note",
            "CREATE VIEW core.mine AS SELECT count(*) AS items FROM core.media",
            MEDIA,
            METRICS,
            "DELETE FROM core.media WHERE media_id >= '000900'",
        ):
            db.execute(statement)
    return path


@pytest.fixture
def full(made: Path, tmp_path: Path) -> Path:
    """A copy of it, for one test."""
    return shutil.copytree(made.parent, tmp_path / "full") / made.name


def run(path: Path) -> tuple[int, int]:
    """Rewrite the file; return its size before and after."""
    before = size_of(path)
    rewrite_file(path)
    return before, path.stat().st_size


def ask(path: Path, query: str) -> list[Row]:
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute(query).fetchall()


def everything(path: Path) -> dict[str, list[Row]]:
    tables = ask(path, "SELECT schema_name || '.' || table_name FROM duckdb_tables() ORDER BY 1")
    return {"": ask(path, COLUMNS)} | {name: ask(path, f"FROM {name} ORDER BY ALL") for (name,) in tables}


def refused(path: Path, kind: type[Exception] = WarehouseUnusable) -> str:
    """Return the error message; assert that the file is unchanged and no other file remains."""
    before = path.read_bytes(), path.stat().st_ino
    with pytest.raises(kind) as raised:
        run(path)
    message = str(raised.value)
    assert (path.read_bytes(), path.stat().st_ino) == before
    assert {beside.name for beside in path.parent.iterdir()} - {"raw"} == {path.name}
    return message


def meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, happens: Callable[..., None]) -> None:
    """Call a function right after a step."""
    taken = getattr(module, step)

    def both(*arguments: object) -> object:
        result = taken(*arguments)
        happens(*arguments)
        return result

    monkeypatch.setattr(module, step, both)


def test_compaction_keeps_all_data_and_reduces_the_size(full: Path) -> None:
    before, size = everything(full), full.stat().st_size
    assert run(full) == (size, full.stat().st_size)
    assert everything(full) == before
    assert full.stat().st_size < size - 1_000_000
    assert ask(full, "FROM core.mine") == [(900,)]
    assert {beside.name for beside in full.parent.iterdir()} == {full.name}


SORTED = {
    "core.media": "account_id, surface, published_at DESC, media_id",
    "core.media_counts": "account_id, surface, media_id, metric, observed_at",
}


def test_media_are_sorted_as_they_are_queried_and_other_tables_keep_their_order(full: Path) -> None:
    as_it_lies = {f"SELECT {keys.replace(' DESC', '')} FROM {table}": keys for table, keys in SORTED.items()}
    expected = {query: ask(full, f"{query} ORDER BY {keys}") for query, keys in as_it_lies.items()}
    assert all(ask(full, query) != rows for query, rows in expected.items())
    run(full)
    assert {query: ask(full, query) for query in as_it_lies} == expected
    assert ask(full, "FROM core.media_notes") == [(3,), (1,), (2,)]


def test_too_little_disk_space_is_reported_beforehand(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(full.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    message = refused(full)
    assert "a second copy needs" in message
    assert "has 1.0 MB left" in message
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=full.stat().st_size))
    run(full)


def test_a_copy_that_is_not_the_same_is_thrown_away(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(_: object, draft: Path) -> None:
        with duckdb.connect(str(draft)) as db:
            db.execute('COMMENT ON COLUMN core.media."order" IS NULL')

    meanwhile(monkeypatch, "_write", spoil)
    assert "the copy differs from the original" in refused(full)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ("_contents", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        ("_write", duckdb.IOException("Could not write file"), "Could not write file"),
    ],
)
def test_an_error_while_it_writes_is_reported(
    full: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception, message: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    meanwhile(monkeypatch, step, fail)
    assert refused(full).endswith(f"{message}. The warehouse is unchanged.")


def _open(path: Path) -> None:
    with open_files(Settings(warehouse=path), "gramhouse sync", now=datetime(2026, 1, 1, tzinfo=UTC)):
        pass


def test_a_kill_leaves_the_old_file_and_the_next_writing_command_clears_up(full: Path) -> None:
    # Each opening gives the warehouse a new token.
    _open(full)
    before = {**everything(full), "core.warehouse": []}
    command = [sys.executable, "-c", DIES, str(full), "_replace"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 9
    assert {**everything(full), "core.warehouse": []} == before
    draft = full.with_name(f".{full.name}.compacted")
    assert draft.exists()
    spill = full.with_name(full.name + ".tmp")
    spill.mkdir(exist_ok=True)
    (spill / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(b"spilled")
    _open(full)
    assert {beside.name for beside in full.parent.iterdir() if beside.is_file()} == {
        full.name, full.name + ".lock", full.name + ".state.sqlite",
    }  # fmt: skip
    assert not spill.exists()
    assert {**everything(full), "core.warehouse": []} == before


def test_files_that_are_not_ours_are_kept(full: Path, tmp_path: Path) -> None:
    draft = full.with_name(f".{full.name}.compacted")
    spill = full.with_name(full.name + ".tmp")
    spill.mkdir()
    (spill / "notes.txt").write_text("precious")
    other = tmp_path / "other.duckdb"
    other.write_text("precious")
    draft.symlink_to(other)
    run(full)
    assert not draft.exists()
    assert other.read_text() == "precious"
    assert (spill / "notes.txt").read_text() == "precious"


def test_no_other_program_can_write_meanwhile(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output: list[str] = []

    def other(*_: object) -> None:
        command = [sys.executable, "-c", OPENS, str(full)]
        output.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    meanwhile(monkeypatch, "_write", other)
    meanwhile(monkeypatch, "_contents", other)
    run(full)
    assert output == ["refused\n"] * 3


def test_compaction_keeps_permissions_and_symbolic_links(full: Path, tmp_path: Path) -> None:
    full.chmod(0o640)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.duckdb"
    link.symlink_to(full)
    inode = full.stat().st_ino
    run(link)
    assert link.is_symlink()
    assert full.stat().st_ino != inode
    assert stat.S_IMODE(full.stat().st_mode) == 0o640
