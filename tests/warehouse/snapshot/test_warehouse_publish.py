import errno
import re
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.publish import publish as publishing
from models.views import views
from tests.harness.points import Crash, Killed, Points, installed
from tests.warehouse.days import POSTS, Days, account, ask, at, opened_days, refusal


def fill(days: Days) -> None:
    """An account, two posts, of which one is removed, and a record without an id."""
    days.catalogue(0, [account()])
    days.scan(POSTS, 1, [{"id": "1"}, {"id": "2"}, {"caption": "no id"}])
    days.scan_twice(POSTS, 12, [{"id": "1"}])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with rows."""
    snapshot = tmp_path_factory.mktemp("filled") / "analytics.duckdb"
    with opened_days(tmp_path_factory.mktemp("warehouse")) as days:
        fill(days)
        days.publish(snapshot)
    return snapshot


def names_beside(snapshot: Path) -> list[str]:
    return sorted(entry.name for entry in snapshot.parent.iterdir())


def test_the_views_are_stored_in_the_warehouse_until_their_tables_change(days: Days, snapshot: Path) -> None:
    days.publish(snapshot)
    stored = "SELECT view_oid, view_name, comment FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    before = days.rows(f"{stored} ORDER BY view_oid")
    assert {row[1:] for row in before} == {row[1:] for row in ask(snapshot, stored)}
    days.publish(snapshot)
    assert days.rows(f"{stored} ORDER BY view_oid") == before
    # The query of the view is the same as before; a type alone differs.
    days.rig.db.execute("ALTER TABLE core.media ALTER like_count TYPE HUGEINT")
    days.publish(snapshot)
    assert set(days.rows(stored)) & {*before} == set()
    columns = "SELECT data_type FROM duckdb_columns() WHERE schema_name = 'main' AND column_name = 'like_count'"
    assert ask(snapshot, f"{columns} AND table_name = 'media'") == [("HUGEINT",)]


def test_the_snapshot_describes_itself(days: Days, snapshot: Path) -> None:
    days.publish(snapshot, 60)
    [(own,)] = days.rows("SELECT id FROM core.warehouse")
    assert ask(snapshot, "SELECT * FROM published") == [(at(60), "1", 129_600.0, own, 604_800.0, None)]


def plan_of(snapshot: Path, question: str) -> str:
    return str(ask(snapshot, f"EXPLAIN (ANALYZE, FORMAT json) {question}")[0][1])


def rows_scanned(plan: str) -> int:
    # DuckDB 1.5 and 2.0 format the profile differently; in both each operator occurs once.
    return sum(int(rows) for rows in re.findall(r'"(?:operator_)?rows_scanned": *(\d+)', plan))


def many_items(days: Days, items: int = 400_000) -> None:
    days.rig.db.execute(f"""
INSERT INTO core.media BY NAME
SELECT
    md5((i // 1000)::VARCHAR)::UUID::VARCHAR AS account_id, 'posts' AS surface, i::VARCHAR AS media_id,
    now() AS first_seen_at, now() AS last_seen_at, 1 AS seen_seq, 1 AS present_seq, 1 AS raw_landed,
    1 AS raw_position, 0 AS content_hash, 0 AS payload_hash,
    now() - to_minutes(i) AS published_at, i AS like_count, now() AS changed_at, now() AS content_changed_at
FROM range({items}) AS r(i) ORDER BY account_id
""")


def test_a_question_for_one_account_reaches_the_scan_behind_the_view(days: Days, snapshot: Path) -> None:
    many_items(days)
    days.publish(snapshot)
    ((account_id,),) = ask(snapshot, "SELECT account_id FROM media WHERE media_id = '7'")
    last = f"SELECT * FROM media WHERE account_id = '{account_id}' ORDER BY published_at DESC LIMIT 100"
    assert [int(row[2]) for row in ask(snapshot, last)] == list(range(100))
    assert 0 < rows_scanned(plan_of(snapshot, last)) <= 2 * 122_880
    # The end of a text cannot be compared with the minimum and maximum of a row group.
    everywhere = "SELECT sum(like_count) FROM media WHERE media_id LIKE '%7'"
    assert rows_scanned(plan_of(snapshot, everywhere)) >= 400_000


def test_media_costs_one_join(filled: Path) -> None:
    plan = str(ask(filled, "EXPLAIN SELECT sum(like_count) FROM media")[0][1])
    assert plan.count("HASH_JOIN") <= 1


def test_it_can_be_attached_beside_others_under_another_name(filled: Path) -> None:
    with duckdb.connect() as db:
        db.execute(f"ATTACH '{filled}' AS theirs (READ_ONLY)")
        db.execute("CREATE SCHEMA core")
        db.execute("CREATE TABLE core.media AS SELECT 1 AS another")
        counted = db.execute("SELECT count(*), count(last_seen_at), count(ig_username) FROM theirs.media").fetchall()
        assert counted == ask(filled, "SELECT count(*), count(*), count(ig_username) FROM media")
        for name in views():
            db.execute(f"FROM theirs.{name}").fetchall()


def test_nothing_but_the_snapshot_is_left_and_left_overs_are_removed(days: Days, snapshot: Path) -> None:
    snapshot.parent.mkdir()
    (snapshot.parent / ".analytics.duckdb.next").write_bytes(b"half a draft of a run that was killed")
    (snapshot.parent / ".analytics.duckdb.next.wal").write_bytes(b"and its log")
    for _ in range(2):
        days.publish(snapshot)
        assert names_beside(snapshot) == ["analytics.duckdb"]


def test_long_texts_are_packed_and_duckdb_reads_the_file_since_1_2(days: Days, snapshot: Path) -> None:
    days.scan(POSTS, 0, [{"id": str(n), "permalink": f"https://example/{n}"} for n in range(3000)])
    days.publish(snapshot)
    packed = "SELECT column_name FROM pragma_storage_info('core.media') WHERE compression = 'ZSTD'"
    assert {"permalink"} <= {name for (name,) in ask(snapshot, packed)}
    assert ask(snapshot, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE NOT internal") == [("v1.2.0+",)]


def test_a_full_disk_leaves_the_old_snapshot_and_no_draft(
    days: Days, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days.publish(snapshot)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "copy_file", full)
        message = refusal(lambda: days.publish(snapshot, 501))
        assert str(snapshot) in message
        assert "No space left on device" in message
    assert names_beside(snapshot) == ["analytics.duckdb"]
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(at(500),)]


def test_an_error_after_the_rename_says_that_the_snapshot_is_new(
    days: Days, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days.publish(snapshot)

    def fail(path: Path) -> None:
        if path == snapshot.parent:
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "sync", fail)
        message = refusal(lambda: days.publish(snapshot, 501))
    assert message == (
        f"{snapshot} was published, but {snapshot.parent} cannot be used: Input/output error. Fix: make the folder"
        " writable, then run `gramhouse publish`."
    )
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(at(501),)]


def test_a_kill_at_any_moment_leaves_the_old_snapshot_or_the_new_one(days: Days, snapshot: Path) -> None:
    fill(days)
    days.publish(snapshot)
    before, new = ask(snapshot, "FROM published"), at(61)
    for nth in [*range(1, 30, 3), *range(30, 2000, 83)]:
        try:
            with installed(Points(Crash(nth), lambda: None)):
                days.publish(snapshot, 61)
        except Killed:
            shown = ask(snapshot, "FROM published")
            assert shown == before or shown[0][0] == new
            assert ask(snapshot, "SELECT count(*) FROM media") == [(2,)]
            # A real kill would end the connection; here it must be reset.
            for statement in ("ROLLBACK", "USE warehouse", "DETACH next_snapshot"):
                with suppress(duckdb.Error):
                    days.rig.db.execute(statement)
        else:
            break
    else:
        pytest.fail("it never came to its end")
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(new,)]
    assert names_beside(snapshot) == ["analytics.duckdb"]
