"""Malicious snapshots written by somebody else."""

from pathlib import Path

import duckdb

SECRET = "the-other-file-7Zq4"
EVIL = "\x1b]0;title\x07\x1b[31m[red]\u202e"


def reading(folder: Path) -> Path:
    """Write a snapshot whose `published` is a view over another local file."""
    other = folder / "other.txt"
    other.write_text(SECRET)
    snapshot = folder / "reading.duckdb"
    with duckdb.connect(str(snapshot)) as db:
        db.execute(
            "CREATE VIEW published AS SELECT now() AS snapshot_at, content AS version"
            f" FROM read_text('{other}')"
        )  # fmt: skip
        for name in ("accounts", "media", "runs", "run_outcomes", "freshness", "quarantine", "completed_scans"):
            db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_text('{other}')")
    return snapshot


def shadowing(folder: Path) -> Path:
    """Write a snapshot with macros that replace functions, and terminal escape sequences in every text."""
    snapshot = folder / "shadowing.duckdb"
    with duckdb.connect(str(snapshot)) as db:
        db.execute("CREATE TABLE published AS SELECT now() AS snapshot_at, 'x' AS version")
        db.execute(f"CREATE TABLE accounts AS SELECT '{EVIL}' AS ig_username, '{EVIL}' AS account_id")
        db.execute(f"COMMENT ON TABLE accounts IS '{EVIL}'")
        db.execute(f"COMMENT ON COLUMN accounts.ig_username IS '{EVIL}'")
        db.execute(f'CREATE TABLE "{EVIL}" AS SELECT 1 AS "{EVIL}"')
        for name in ("count", "max", "coalesce", "duckdb_tables"):
            db.execute(f"CREATE MACRO \"{name}\"(x) AS '{EVIL}'")
    return snapshot


def misnamed(folder: Path) -> Path:
    """Write a snapshot whose tables are named like paths."""
    snapshot = folder / "misnamed.duckdb"
    key = "SELECT 'a' AS account_id, 'posts' AS surface, '1' AS media_id"
    with duckdb.connect(str(snapshot)) as db:
        db.execute("CREATE TABLE published AS SELECT now() AS snapshot_at, 'x' AS version")
        for name in ("../up", "/etc/passwd", "a/b", "CON", "it's", "manifest.json", "~", "$HOME", "%2e%2e", "a\nb"):
            db.execute(f'CREATE TABLE "{name.replace(chr(39), chr(39))}" AS SELECT 1 AS x')
            db.execute(f'CREATE TABLE "keyed {name}" AS {key}')
    return snapshot


def dots(folder: Path) -> Path:
    """Write a snapshot with a table named ".."."""
    snapshot = folder / "dots.duckdb"
    with duckdb.connect(str(snapshot)) as db:
        db.execute("CREATE TABLE published AS SELECT now() AS snapshot_at, 'x' AS version")
        db.execute("""CREATE TABLE ".." AS SELECT 'a' AS account_id, 'posts' AS surface, '1' AS media_id""")
    return snapshot
