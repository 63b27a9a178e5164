"""Compacting: the same rows in a small, sorted file, or the old file unchanged."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.maintenance import compact_file as module
from connectors.warehouse.maintenance.compact_file import rewrite_file
from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.errors import WarehouseUnusable

Row = tuple[Any, ...]

ROOT = Path(__file__).parents[3]

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
FROM range(10000) AS t(n)
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
    """A warehouse with a column of a field, a user's view, and much free space."""
    path = tmp_path_factory.mktemp("made") / "warehouse.duckdb"
    with open_warehouse(path) as db:
        for statement in (
            'ALTER TABLE core.media ADD COLUMN "order" VARCHAR',
            "COMMENT ON COLUMN core.media.\"order\" IS 'Discovered: it''s /order.'",
            "CREATE VIEW core.mine AS SELECT count(*) AS items FROM core.media",
            MEDIA,
            METRICS,
            "CHECKPOINT",
            "DELETE FROM core.media WHERE media_id >= '001000'",
        ):
            db.execute(statement)
    return path


@pytest.fixture
def full(made: Path, tmp_path: Path) -> Path:
    """A copy of it, for one test."""
    return shutil.copytree(made.parent, tmp_path / "full") / made.name


def ask(path: Path, query: str) -> list[Row]:
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute(query).fetchall()


def everything(path: Path) -> dict[str, list[Row]]:
    """All rows but those of core.warehouse, of which each opening changes the token."""
    tables = ask(path, "SELECT schema_name || '.' || table_name FROM duckdb_tables() ORDER BY 1")
    found = {name: ask(path, f"FROM {name} ORDER BY ALL") for (name,) in tables if name != "core.warehouse"}
    return {"": ask(path, COLUMNS), "core.mine": ask(path, "FROM core.mine"), **found}


SORTED = {
    "core.media": "account_id, surface, published_at DESC, media_id",
    "core.media_counts": "account_id, surface, media_id, metric, observed_at",
}


def test_all_data_and_permissions_are_kept_in_a_smaller_file_sorted_as_it_is_queried(
    full: Path, tmp_path: Path
) -> None:
    before, size, inode = everything(full), full.stat().st_size, full.stat().st_ino
    full.chmod(0o640)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.duckdb"
    link.symlink_to(full)
    rewrite_file(link)
    assert everything(full) == before
    assert full.stat().st_size < size
    for table, keys in SORTED.items():
        assert ask(full, f"FROM {table}") == ask(full, f"FROM {table} ORDER BY {keys}"), table
    assert link.is_symlink()
    assert full.stat().st_ino != inode
    assert stat.S_IMODE(full.stat().st_mode) == 0o640
    assert [beside.name for beside in full.parent.iterdir()] == [full.name]


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sync", full_disk, "No space left on device"),
        ("_ORDERS", {"media_counts": "LIMIT 5"}, "differs from the original"),
    ],
)
def test_if_it_fails_the_file_is_unchanged(
    full: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object, message: str
) -> None:
    before = full.read_bytes(), full.stat().st_ino
    monkeypatch.setattr(module, name, value)
    with pytest.raises(WarehouseUnusable, match=message):
        rewrite_file(full)
    assert (full.read_bytes(), full.stat().st_ino) == before
    assert [beside.name for beside in full.parent.iterdir()] == [full.name]


def test_no_other_program_can_write_meanwhile(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output: list[str] = []
    contents = module.read_contents

    def other(db: duckdb.DuckDBPyConnection, database: str) -> list[object]:
        command = [sys.executable, "-c", OPENS, str(full)]
        output.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return contents(db, database)

    monkeypatch.setattr(module, "read_contents", other)
    rewrite_file(full)
    assert output == ["refused\n"] * 2
