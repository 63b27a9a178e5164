import errno
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.snapshot import publish as publishing
from connectors.warehouse.storage.connection import connect
from connectors.warehouse.storage.declared import TABLES
from models.views import views
from tests.harness.loop import Killed
from tests.harness.points import Crash, Points, installed
from tests.warehouse.rig import POSTS, Rig, account, ask, at, in_memory, refusal


@pytest.fixture
def kept(path: Path) -> Iterator[Rig]:
    """A warehouse in a file, open for writing."""
    with connect(path) as connection:
        yield Rig(connection)


def fill(rig: Rig) -> None:
    """An account, two posts, of which one is removed, and a record without an id."""
    rig.catalogue("c", 0, [account()])
    rig.scan(POSTS, "p", 1, [{"id": "1"}, {"id": "2"}, {"caption": "no id"}])
    rig.scan_twice(POSTS, "q", 12, [{"id": "1"}])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with rows."""
    snapshot = tmp_path_factory.mktemp("filled") / "analytics.duckdb"
    with in_memory() as connection:
        fill(rig := Rig(connection))
        rig.publish(snapshot)
    return snapshot


def names_beside(snapshot: Path) -> list[str]:
    return sorted(entry.name for entry in snapshot.parent.iterdir())


def test_nothing_of_the_control_tables_is_in_it(filled: Path) -> None:
    assert ask(filled, "SELECT DISTINCT schema_name FROM duckdb_tables() ORDER BY ALL") == [("core",)]
    declared = {name.removeprefix("core.") for name in TABLES if name.startswith("core.")}
    kept = {name for (name,) in ask(filled, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'core'")}
    assert kept == declared | {"account_lookup", "missing_items", "open_gaps", "published", "raw_parts"}


def test_the_views_are_stored_in_the_warehouse_until_their_tables_change(rig: Rig, snapshot: Path) -> None:
    rig.publish(snapshot)
    stored = "SELECT view_oid, view_name, comment FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    rig.do("CREATE VIEW main.mine AS SELECT 1 AS one")
    (*before, mine) = rig.rows(f"{stored} ORDER BY view_oid")
    assert {row[1:] for row in before} == {row[1:] for row in ask(snapshot, stored)}
    rig.publish(snapshot)
    assert rig.rows(f"{stored} ORDER BY view_oid") == [*before, mine]
    # The query of the view is the same as before; a type alone differs.
    rig.do("ALTER TABLE core.media ALTER like_count TYPE HUGEINT")
    rig.publish(snapshot)
    assert set(rig.rows(stored)) & {*before, mine} == {mine}
    # Other tests use the same warehouse.
    rig.do("DROP VIEW main.mine")
    columns = "SELECT data_type FROM duckdb_columns() WHERE schema_name = 'main' AND column_name = 'like_count'"
    assert ask(snapshot, f"{columns} AND table_name = 'media'") == [("HUGEINT",)]


def test_the_snapshot_describes_itself(rig: Rig, snapshot: Path) -> None:
    assert rig.publish(snapshot, 60) == snapshot.stat().st_size
    own = rig.value("SELECT warehouse_id FROM ops.warehouse")
    assert ask(snapshot, "SELECT * FROM published") == [(at(60), "1", 129_600.0, own, 604_800.0, None)]


def plan_of(snapshot: Path, question: str) -> str:
    return str(ask(snapshot, f"EXPLAIN (ANALYZE, FORMAT json) {question}")[0][1])


def rows_scanned(plan: str) -> int:
    # DuckDB 1.5 and 2.0 format the profile differently; in both each operator occurs once.
    return sum(int(rows) for rows in re.findall(r'"(?:operator_)?rows_scanned": *(\d+)', plan))


def many_items(rig: Rig, items: int = 400_000) -> None:
    rig.do(f"""
INSERT INTO core.media BY NAME
SELECT
    md5((i // 1000)::VARCHAR)::UUID::VARCHAR AS account_id, 'posts' AS surface, i::VARCHAR AS media_id,
    now() AS first_seen_at, now() AS written_at,
    now() - to_minutes(i) AS published_at, i AS like_count, now() AS changed_at, now() AS content_changed_at
FROM range({items}) AS r(i) ORDER BY account_id
""")


def test_a_question_for_one_account_reaches_the_scan_behind_the_view(rig: Rig, snapshot: Path) -> None:
    many_items(rig)
    rig.publish(snapshot)
    ((account_id,),) = ask(snapshot, "SELECT account_id FROM media WHERE media_id = '7'")
    last = f"SELECT * FROM media WHERE account_id = '{account_id}' ORDER BY published_at DESC LIMIT 100"
    assert [int(row[2]) for row in ask(snapshot, last)] == list(range(100))
    assert 0 < rows_scanned(plan_of(snapshot, last)) <= 2 * 122_880
    # The end of a text cannot be compared with the minimum and maximum of a row group.
    everywhere = "SELECT sum(like_count) FROM media WHERE media_id LIKE '%7'"
    assert rows_scanned(plan_of(snapshot, everywhere)) >= 400_000


def test_media_costs_one_join_and_none_for_pending_removals_where_there_are_none(
    rig: Rig, snapshot: Path, filled: Path
) -> None:
    plan = str(ask(filled, "EXPLAIN SELECT sum(like_count) FROM media")[0][1])
    assert plan.count("HASH_JOIN") == 1
    rig.catalogue("c", 0, [account()])
    rig.scan(POSTS, "p", 1, [{"id": "1"}, {"id": "2"}])
    rig.do("INSERT INTO ops.missing SELECT account_id, surface, media_id, now(), '2026-01-01' FROM core.media")
    rig.publish(snapshot)
    query = "SELECT DISTINCT last_seen_at FROM media WHERE removed_at IS NULL"
    assert ask(snapshot, query) == [(datetime(2026, 1, 1, tzinfo=UTC),)]
    assert ask(snapshot, "SELECT count(*) FROM media") == [(rig.value("SELECT count(*) FROM core.media"),)]


def test_it_can_be_attached_beside_others_under_another_name(filled: Path) -> None:
    with duckdb.connect() as db:
        db.execute(f"ATTACH '{filled}' AS theirs (READ_ONLY)")
        db.execute("CREATE SCHEMA core")
        db.execute("CREATE TABLE core.media AS SELECT 1 AS another")
        counted = db.execute("SELECT count(*), count(last_seen_at), count(ig_username) FROM theirs.media").fetchall()
        assert counted == ask(filled, "SELECT count(*), count(*), count(ig_username) FROM media")
        for name in views():
            db.execute(f"FROM theirs.{name}").fetchall()


def test_nothing_but_the_snapshot_is_left_and_left_overs_are_removed(kept: Rig, snapshot: Path) -> None:
    snapshot.parent.mkdir()
    (snapshot.parent / ".analytics.duckdb.next").write_bytes(b"half a draft of a run that was killed")
    (snapshot.parent / ".analytics.duckdb.next.wal").write_bytes(b"and its log")
    for _ in range(2):
        kept.publish(snapshot)
        assert names_beside(snapshot) == ["analytics.duckdb"]


def test_a_failed_draft_affects_neither_the_writer_nor_the_old_snapshot(kept: Rig, snapshot: Path) -> None:
    kept.publish(snapshot)
    kept.do("ALTER TABLE core.media RENAME TO hidden")
    assert str(snapshot) in refusal(lambda: kept.publish(snapshot, 501))
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(at(500),)]
    kept.do("ALTER TABLE core.hidden RENAME TO media")
    kept.scan(POSTS, "p", 0, [{"id": "1"}])
    kept.publish(snapshot)
    assert ask(snapshot, "SELECT media_id FROM media") == [("1",)]
    assert names_beside(snapshot) == ["analytics.duckdb"]


def test_long_texts_are_packed_and_duckdb_reads_the_file_since_1_2(kept: Rig, snapshot: Path) -> None:
    kept.scan(POSTS, "p", 0, [{"id": str(n), "permalink": f"https://example/{n}"} for n in range(3000)])
    kept.publish(snapshot)
    packed = "SELECT column_name FROM pragma_storage_info('core.media') WHERE compression = 'ZSTD'"
    assert {"permalink"} <= {name for (name,) in ask(snapshot, packed)}
    assert ask(snapshot, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE NOT internal") == [("v1.2.0+",)]


def opens_for_writing(path: Path) -> bool:
    code = "import duckdb, sys; duckdb.connect(sys.argv[1])"
    return subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True).returncode == 0


def test_the_warehouse_stays_locked_against_other_programs(kept: Rig, snapshot: Path, path: Path) -> None:
    for _ in range(2):
        kept.publish(snapshot)
        assert not opens_for_writing(path)


def test_a_full_disk_leaves_the_old_snapshot_and_no_draft(
    kept: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.publish(snapshot)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", full, raising=False)
        message = refusal(lambda: kept.publish(snapshot, 501))
        assert str(snapshot) in message
        assert "No space left on device" in message
    assert names_beside(snapshot) == ["analytics.duckdb"]
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(at(500),)]


def test_an_error_after_the_rename_says_that_the_snapshot_is_new(
    kept: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.publish(snapshot)

    def fail(path: Path) -> None:
        if path == snapshot.parent:
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "sync", fail)
        message = refusal(lambda: kept.publish(snapshot, 501))
    assert message == (
        f"{snapshot} was published, but {snapshot.parent} cannot be used: Input/output error. Fix: make the folder"
        " writable, then run `gramhouse publish`."
    )
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(at(501),)]


def test_a_kill_at_any_moment_leaves_the_old_snapshot_or_the_new_one(kept: Rig, snapshot: Path) -> None:
    fill(kept)
    kept.publish(snapshot)
    before, new = ask(snapshot, "FROM published"), at(61)
    for nth in [*range(1, 30, 3), *range(30, 2000, 83)]:
        try:
            with installed(Points(Crash(nth), lambda: None)):
                kept.publish(snapshot, 61)
        except Killed:
            shown = ask(snapshot, "FROM published")
            assert shown == before or shown[0][0] == new
            assert ask(snapshot, "SELECT count(*) FROM media") == [(2,)]
            # A real kill would end the connection; here it must be reset.
            for statement in ("ROLLBACK", "USE warehouse", "DETACH next_snapshot", "DETACH published_snapshot"):
                with suppress(duckdb.Error):
                    kept.connection.db.execute(statement)
        else:
            break
    else:
        pytest.fail("it never came to its end")
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(new,)]
    assert names_beside(snapshot) == ["analytics.duckdb"]
