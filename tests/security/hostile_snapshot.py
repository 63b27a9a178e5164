"""Malicious snapshots written by somebody else."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

SECRET = "the-other-file-7Zq4"
EVIL = "\x1b]0;title\x07\x1b[31m[red]\u202e"
_KEYED = "AS SELECT 'a' AS account_id, 'posts' AS surface, '1' AS media_id"
_PATHS = ("../up", "/etc/passwd", "a/b", "CON", "it's", "manifest.json", "~", "$HOME", "%2e%2e", "a\nb")
_NAMES = ("accounts", "media", "runs", "run_outcomes", "freshness", "quarantine", "completed_scans")

# Macros that replace functions, and terminal escape sequences in every text.
SHADOWING = (
    f"CREATE TABLE accounts AS SELECT '{EVIL}' AS ig_username, '{EVIL}' AS account_id",
    f"COMMENT ON TABLE accounts IS '{EVIL}'",
    f"COMMENT ON COLUMN accounts.ig_username IS '{EVIL}'",
    f'CREATE TABLE "{EVIL}" AS SELECT 1 AS "{EVIL}"',
    *(f"CREATE MACRO \"{name}\"(x) AS '{EVIL}'" for name in ("count", "max", "coalesce", "duckdb_tables")),
)
# Tables that are named like paths.
MISNAMED = (
    *(f'CREATE TABLE "{name}" AS SELECT 1 AS x' for name in _PATHS),
    *(f'CREATE TABLE "keyed {name}" {_KEYED}' for name in _PATHS),
)
DOTS = (f'CREATE TABLE ".." {_KEYED}',)


def write(folder: Path, statements: Sequence[str]) -> Path:
    """Write a snapshot with these tables."""
    snapshot = folder / "hostile.duckdb"
    with duckdb.connect(str(snapshot)) as db:
        db.execute("CREATE TABLE published AS SELECT now() AS snapshot_at, 'x' AS version")
        for statement in statements:
            db.execute(statement)
    return snapshot


def reading(folder: Path) -> Path:
    """Write a snapshot whose tables are views over another local file."""
    other = folder / "other.txt"
    other.write_text(SECRET)
    published = f"SELECT now() AS snapshot_at, content AS version FROM read_text('{other}')"
    views = [f"CREATE VIEW {name} AS SELECT * FROM read_text('{other}')" for name in _NAMES]
    return write(folder, ["DROP TABLE published", f"CREATE VIEW published AS {published}", *views])
