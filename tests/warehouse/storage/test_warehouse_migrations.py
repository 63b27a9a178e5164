"""A warehouse of any release is upgraded in one transaction, or refused with a reason and left unchanged."""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from alembic.script import ScriptDirectory
from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.landing.page_commit import last_seq
from connectors.warehouse.maintenance import opening
from connectors.warehouse.maintenance.opening import opened_store
from connectors.warehouse.maintenance.rebuild import rebuild_stored
from connectors.warehouse.merge.run_counts import NAMES
from connectors.warehouse.raw.store import RawStore
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import Connection, check, connect
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.migrations import revisions, upgrade
from connectors.warehouse.warehouse import open_warehouse
from models.partition import Partition, media
from models.tables import WAREHOUSE
from tests.warehouse.rig import ANNA, POSTS, T0, Item, Rig, Row, at, in_memory

ROOT = Path(__file__).parents[3]
RELEASES = sorted((Path(__file__).parents[1] / "fixtures").glob("warehouse_*.duckdb.gz"))
FIRST_RELEASE = RELEASES[0]

Schema = dict[str, dict[str, tuple[str, bool]]]

# A revision of a later version of gramhouse; `{end}` is its end.
NEXT = """
import os
from alembic import op
revision, down_revision = "9999", "{after}"

def upgrade():
    op.execute("ALTER TABLE core.media ADD COLUMN later INTEGER")
    {end}
"""

OPENS = """
import sys
from pathlib import Path
from connectors.warehouse.storage.connection import connect
with connect(Path(sys.argv[1])):
    print(any(name.split(".")[0] == "alembic" for name in sys.modules))
"""

DIES = """
import os, sys
from pathlib import Path
from connectors.warehouse.storage.connection import connect
from connectors.warehouse.maintenance import opening
from connectors.warehouse.storage.migrations import revisions, upgrade
if len(sys.argv) > 2:
    upgrade.FOLDER = Path(sys.argv[2])
    revisions.HEAD = "9999"
with connect(Path(sys.argv[1])):
    os._exit(9)
"""


@pytest.fixture(params=RELEASES, ids=lambda release: release.name.split(".duckdb")[0])
def released(request: pytest.FixtureRequest, path: Path) -> Path:
    """A copy of the warehouse that a release wrote."""
    return unpacked(request.param, path)


@pytest.fixture
def oldest(path: Path) -> Path:
    return unpacked(FIRST_RELEASE, path)


@pytest.fixture
def bare() -> Iterator[DuckDBPyConnection]:
    """A DuckDB connection with nothing but the schema for the revision."""
    with duckdb.connect() as db:
        db.execute(f"CREATE SCHEMA {revisions.SCHEMA}")
        yield db


def unpacked(release: Path, path: Path) -> Path:
    path.write_bytes(gzip.decompress(release.read_bytes()))
    return path


@contextmanager
def opened(path: Path, *, now: datetime = T0, at_once: int = 50_000) -> Iterator[Connection]:
    """Open a warehouse as a sync does, including the upgrade of its rows."""
    with (
        connect(path) as connection,
        opened_store(connection, "a test", now=now, pause=lambda _: None, at_once=at_once),
    ):
        yield connection


def payloads(path: Path) -> dict[tuple[Any, ...], str]:
    """The payloads of items and versions that a release keeps in the warehouse."""
    present = "SELECT 'media', account_id, surface, media_id, NULL, payload::VARCHAR FROM core.media"
    before = "SELECT 'version', account_id, surface, media_id, valid_from, payload::VARCHAR FROM core.media_superseded"
    has_versions = ask(path, "SELECT EXISTS (FROM duckdb_tables() WHERE table_name = 'media_superseded')")[0][0]
    rows = ask(path, f"{present} UNION ALL {before}" if has_versions else present)
    return {row[:-1]: row[-1] for row in rows}


def raw_payloads(rig: Rig) -> dict[tuple[Any, ...], str]:
    present = f"SELECT 'media', account_id, surface, media_id, NULL, gh_payload FROM {rig.kept()}"
    kept = rig.kept("core.media_superseded")
    before = f"SELECT 'version', account_id, surface, media_id, valid_from, gh_payload FROM {kept}"
    return {row[:-1]: row[-1] for row in rig.rows(f"{present} UNION ALL {before}")}


def run(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def ask(path: Path, query: str) -> list[Row]:
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute(query).fetchall()


def change(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as db:
        for statement in statements:
            db.execute(statement)


def shaped(columns: list[Row]) -> Schema:
    found: Schema = {}
    for table, column, kind, nullable in columns:
        found.setdefault(table, {})[column] = (kind, nullable)
    return found


COLUMNS = (
    "SELECT schema_name || '.' || table_name, column_name, data_type, is_nullable FROM duckdb_columns()"
    f" WHERE NOT internal AND schema_name || '.' || table_name != '{revisions.TABLE}'"
)


def schema(db: DuckDBPyConnection) -> Schema:
    return shaped(db.execute(COLUMNS).fetchall())


def declared() -> Schema:
    with in_memory() as connection:
        return schema(connection.db)


# Tables, columns and a state that had other names in older releases.
TABLES = {"core.walks": "core.completed_scans", "ops.holds": "ops.cooldowns"}
NAMES_NOW = {
    "walk_id": "scan_id",
    "lane": "run_kind",
    "set_aside": "rejected",
    "carries_on": "resumes",
    "kinds": "json_types",
}
STATE = "if(state = 'walking', 'scanning', state)"


def contents(path: Path, columns: Schema, *, upgraded: bool = False) -> dict[str, list[Row]]:
    """Return these columns, by their names in the release."""
    found = {}
    for table, names in columns.items():
        wanted = [NAMES_NOW.get(name, name) if upgraded else name for name in sorted(names)]
        if table == "ops.checkpoints":
            wanted = [STATE if name == "state" else name for name in wanted]
        stored = TABLES.get(table, table) if upgraded else table
        found[table] = ask(path, f"SELECT {', '.join(wanted)} FROM {stored} ORDER BY ALL")
    return found


def refused(path: Path) -> str:
    with pytest.raises(WarehouseUnusable) as raised, connect(path):
        raise AssertionError
    message = str(raised.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def with_next(monkeypatch: pytest.MonkeyPatch, folder: Path, end: str) -> Path:
    """This version of gramhouse with one more revision."""
    shutil.copytree(upgrade.FOLDER, folder)
    (folder / "versions" / "r9999_next.py").write_text(NEXT.format(after=revisions.HEAD, end=end))
    monkeypatch.setattr(upgrade, "FOLDER", folder)
    monkeypatch.setattr(revisions, "REVISIONS", (*revisions.REVISIONS, "9999"))
    monkeypatch.setattr(revisions, "HEAD", "9999")
    return folder


def test_the_revisions_known_without_alembic_are_those_that_alembic_finds() -> None:
    script = ScriptDirectory.from_config(upgrade.config())
    assert [found.revision for found in script.walk_revisions()] == list(reversed(revisions.REVISIONS))
    assert script.get_current_head() == revisions.HEAD


def test_the_revisions_produce_the_declared_schema(bare: DuckDBPyConnection) -> None:
    """A change of models/tables must be part of a revision that is not released yet."""
    bare.begin()
    upgrade.upgrade(bare, revisions.HEAD)
    migrated = schema(bare)
    wanted = declared()
    assert migrated.keys() == wanted.keys()
    for table, columns in wanted.items():
        assert migrated[table] == columns, table


def test_the_first_revision_produces_the_schema_of_the_first_release(bare: DuckDBPyConnection, oldest: Path) -> None:
    bare.begin()
    upgrade.upgrade(bare, revisions.FIRST)
    assert schema(bare) == shaped(ask(oldest, COLUMNS))


def test_a_released_warehouse_is_upgraded_and_keeps_every_row(released: Path) -> None:
    columns = shaped(ask(released, COLUMNS))
    for name in NAMES:
        columns["core.runs"].pop(name, None)
    columns.pop("ops.archive", None)
    for name in ("digest", "content_digest", "payload_hash", "payload"):
        columns["core.media"].pop(name, None)
    columns.get("core.media_superseded", {}).pop("payload", None)
    before = contents(released, columns)
    assert len(before["core.media"]) > 10
    with connect(released) as connection:
        upgraded = schema(connection.db)
    for table, wanted in declared().items():
        assert upgraded[table].items() >= wanted.items(), table
    assert contents(released, columns, upgraded=True) == before
    assert ask(released, f"FROM {revisions.TABLE}") == [(revisions.HEAD,)]


# The first release counted no removed accounts.
RECORDED = ", ".join(name for name in NAMES if name != "accounts_removed")
COUNTED = f"SELECT run_id, {RECORDED} FROM core.run_counts ORDER BY ALL"


def test_counts_recorded_by_runs_of_the_first_release_are_kept(oldest: Path) -> None:
    before = ask(oldest, f"SELECT run_id, {RECORDED} FROM core.runs ORDER BY ALL")
    with connect(oldest):
        pass
    rest = [row for row in ask(oldest, COUNTED) if row[0] == ""]
    assert before == [row for row in ask(oldest, COUNTED) if row[0] != ""]
    assert len(rest) <= 1


@pytest.mark.parametrize(
    "done",
    [
        (),
        ("UPDATE core.runs SET added = 1, changed = 0, removed = 0, expired = 0, returned = 0",),
        ("UPDATE core.runs SET added = NULL, changed = NULL, removed = NULL, expired = NULL, returned = NULL",),
        ("UPDATE core.runs SET added = 0, removed = 99", "UPDATE core.media SET removed_at = NULL, removal = NULL"),
        (
            "UPDATE core.runs SET removed = 1, expired = 0, returned = 0",
            "UPDATE core.media SET removed_at = now(), removal = if(hash(media_id) % 3 = 0, 'expired', 'removed')",
        ),
    ],
)
def test_an_upgrade_counts_changes_that_no_run_recorded(oldest: Path, done: tuple[str, ...]) -> None:
    change(oldest, *done)
    with connect(oldest):
        pass
    assert ask(oldest, "SELECT sum(added), sum(removed) + sum(expired) - sum(returned) FROM core.run_counts") == ask(
        oldest, "SELECT count(*), count(*) FILTER (removed_at IS NOT NULL) FROM core.media"
    )
    gone = "count(*) FILTER (removal = '{0}')"
    shown = ask(oldest, f"SELECT {gone.format('removed')}, {gone.format('expired')} FROM core.media")[0]
    (counted,) = ask(oldest, "SELECT sum(removed), sum(expired) FROM core.run_counts")
    assert all(number >= there for number, there in zip(counted, shown, strict=True))
    changes = "SELECT count(*) FROM core.media WHERE changed_at > first_seen_at"
    assert ask(oldest, "SELECT sum(changed) FROM core.run_counts")[0] >= ask(oldest, changes)[0]
    rest = "SELECT min(least(added, changed, removed, expired, returned)) FROM core.run_counts WHERE run_id = ''"
    assert ask(oldest, rest)[0][0] in (None, 0)


def test_content_of_first_release_items_changed_at_their_last_change(oldest: Path) -> None:
    with connect(oldest):
        pass
    differing = "SELECT count(*) FROM core.media WHERE content_changed_at != changed_at"
    assert ask(oldest, differing) == [(0,)]


def test_unfinished_scans_of_the_first_release_belong_to_syncs(oldest: Path) -> None:
    before = ask(oldest, f"SELECT * REPLACE ({STATE} AS state) FROM ops.checkpoints ORDER BY seq")
    assert before
    with connect(oldest):
        pass
    since = (
        "run_kind, began_seq, repeated_pages, empty_pages, known_seq, known_run, read_to, order_broken_by, full_share"
    )
    assert ask(oldest, f"SELECT * EXCLUDE ({since}) FROM ops.checkpoints ORDER BY seq") == before
    assert ask(oldest, "SELECT DISTINCT run_kind FROM ops.checkpoints") == [("sync",)]
    assert ask(oldest, "SELECT count(*) FROM core.runs WHERE selection IS NOT NULL OR reason IS NOT NULL") == [(0,)]
    assert ask(oldest, "SELECT count(*) > 0 FROM core.runs") == [(True,)]


def test_an_upgraded_warehouse_merges_and_publishes_the_next_run(released: Path, tmp_path: Path) -> None:
    staged = ask(released, "SELECT count(*) FROM ops.staging")
    with opened(released) as connection:
        rig = Rig(connection)
        with connection.begin():
            rig.seq = last_seq(connection)
        assert staged != [(0,)]
        rig.merge()
        assert rig.value(f"SELECT caption FROM core.media WHERE account_id = '{ANNA}' AND media_id = '2'") == (
            "two, anew"
        )
        rig.scan(POSTS, "next", 72, [{"id": "1", "caption": "one, too"}, {"id": "4"}])
        publish(connection, tmp_path / "s.duckdb", at=at(80), version="next")
    found = ask(
        tmp_path / "s.duckdb",
        "SELECT media_id, caption, first_seen_at < changed_at, removed_at IS NULL FROM media"
        f" WHERE account_id = '{ANNA}' ORDER BY media_id",
    )
    assert found == [
        ("1", "one, too", True, True),
        ("2", "two, anew", True, False),
        ("3", None, False, False),
        (
            "4",
            None,
            False,
            True,
        ),
    ]
    (kept,) = ask(tmp_path / "s.duckdb", f"SELECT count(*) FROM media WHERE account_id != '{ANNA}'")
    assert kept == (40,)


@pytest.mark.anyio
async def test_rows_of_an_older_version_are_rebuilt_once_without_changes(released: Path) -> None:
    async with open_warehouse(released, "test", now=T0):
        pass
    assert ask(released, "SELECT count(*) FROM core.media WHERE payload_hash IS NULL") == [(0,)]
    with connect(released) as connection:
        rig = Rig(connection)
        with connection.begin():
            rig.seq = last_seq(connection)
        rig.merge()
        changed = "SELECT (SELECT count(*) FROM core.media_superseded), (SELECT max(changed_at) FROM core.media)"
        before = rig.row(changed)
        items: dict[Partition, list[Item]] = {}
        stored = rig.rows(f"SELECT account_id, surface, gh_payload FROM {rig.kept()}")
        for account_id, surface, payload in stored:
            items.setdefault(media(account_id, surface), []).append(json.loads(payload))
        for partition, some in items.items():
            rig.scan(partition, f"again {partition}", 100, some)
        assert rig.row(changed) == before


@pytest.mark.anyio
async def test_versions_of_an_older_warehouse_get_their_typed_columns_when_it_is_first_opened(released: Path) -> None:
    async with open_warehouse(released, "test", now=T0):
        pass
    with connect(released) as connection:
        rig = Rig(connection)
        rig.merge()
        listed = "SELECT COLUMNS(*)::VARCHAR FROM core.media_superseded ORDER BY ALL"
        found = rig.rows(f"SELECT caption, gh_payload->>'$.caption' FROM {rig.kept('core.media_superseded')}")
        assert found
        assert [caption for caption, _ in found] == [output for _, output in found]
        there = rig.rows(listed)
        with connection.begin():
            rebuild_stored(connection, read_mapping(connection))
        assert rig.rows(listed) == there


def test_payloads_of_an_older_version_move_to_the_raw_store_byte_for_byte(released: Path) -> None:
    before = payloads(released)
    with opened(released, at_once=7) as connection:
        rig = Rig(connection)
        assert raw_payloads(rig) == before
        assert len(list(released.parent.rglob("part-*.parquet"))) == rig.value("SELECT raw_parts FROM ops.warehouse")
        # The row of an item has newer bytes than its versions.
        newest = "SELECT max(raw_landed) FROM core.media_superseded"
        assert rig.value(f"SELECT coalesce(min(raw_landed) > ({newest}), true) FROM core.media")
        with connection.begin():
            assert rig.seq <= last_seq(connection) < 10_000
    with connect(released) as connection:
        assert raw_payloads(Rig(connection)) == before


class Killed(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("step", ["put 1", "put 2", "commit 1", "commit 2", "drop 1"])
def test_an_interrupted_upgrade_of_rows_is_continued(
    released: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = payloads(released)
    kind, number = step.split()
    left = [int(number)]

    def count_down() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def after(work: Any, *arguments: Any) -> Any:  # noqa: ANN401 - whatever is replaced
        done = work(*arguments)
        count_down()
        return done

    with monkeypatch.context() as patched:
        put, move = RawStore.put, opening.move_some
        if kind == "put":
            patched.setattr(RawStore, "put", lambda *given: after(put, *given))
        elif kind == "commit":
            patched.setattr(opening, "move_some", lambda *given: after(move, *given))
        else:
            drop = opening.drop_payload
            patched.setattr(opening, "drop_payload", lambda *given: after(drop, *given))
        with pytest.raises(Killed), opened(released, at_once=20):
            raise AssertionError
    with opened(released) as connection:
        rig = Rig(connection)
        assert raw_payloads(rig) == before
        assert "old payload" not in str(schema(connection.db))


def test_discovered_columns_are_not_changed(oldest: Path) -> None:
    change(
        oldest,
        "ALTER TABLE core.media ADD COLUMN owner__username VARCHAR",
        "UPDATE core.media SET owner__username = media_id",
        "CREATE TABLE core.media_music (media_id VARCHAR NOT NULL, title VARCHAR)",
        "INSERT INTO core.media_music VALUES ('1', 'a song')",
    )
    with connect(oldest):
        pass
    assert ask(oldest, "SELECT count(*) FROM core.media WHERE owner__username = media_id") == [(43,)]
    assert ask(oldest, "FROM core.media_music") == [("1", "a song")]


def test_a_failed_upgrade_leaves_the_file_unchanged_and_is_reported(oldest: Path) -> None:
    change(oldest, "ALTER TABLE core.fields ADD COLUMN kinds INTEGER")
    before = oldest.read_bytes()
    for _ in range(2):
        message = refused(oldest)
        assert f"from revision {revisions.FIRST} to {revisions.HEAD} and is unchanged" in message
        assert "kinds" in message
    assert oldest.read_bytes() == before
    change(oldest, "ALTER TABLE core.fields DROP COLUMN kinds")
    with connect(oldest):
        pass
    assert ask(oldest, f"FROM {revisions.TABLE}") == [(revisions.HEAD,)]


def test_if_the_last_of_several_revisions_fails_none_is_applied(
    oldest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = oldest.read_bytes()
    with monkeypatch.context() as patched:
        with_next(patched, tmp_path / "more", "raise KeyError('out of luck')")
        assert "out of luck" in refused(oldest)
    assert oldest.read_bytes() == before
    with connect(oldest):
        pass


def test_several_revisions_are_applied_at_once_from_any_folder(
    oldest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_next(monkeypatch, tmp_path / "100%(here)s", "pass")
    with connect(oldest):
        pass
    assert ask(oldest, f"FROM {revisions.TABLE}") == [("9999",)]
    assert ask(oldest, "SELECT count(*) FROM core.media WHERE later IS NULL") == [(43,)]


def test_a_kill_during_the_upgrade_leaves_the_file_unchanged(
    oldest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = shaped(ask(oldest, COLUMNS))
    before = contents(oldest, columns)
    with monkeypatch.context() as patched:
        folder = with_next(patched, tmp_path / "more", "os._exit(7)")
    assert run(DIES, oldest, folder).returncode == 7
    assert shaped(ask(oldest, COLUMNS)) == columns
    assert contents(oldest, columns) == before


def test_a_kill_right_after_the_upgrade_loses_nothing(oldest: Path) -> None:
    before = ask(oldest, "SELECT account_id, surface, media_id, changed_at FROM core.media ORDER BY ALL")
    assert run(DIES, oldest).returncode == 9
    with opened(oldest) as connection:
        assert schema(connection.db).keys() >= declared().keys()
    after = ask(oldest, "SELECT account_id, surface, media_id, content_changed_at FROM core.media ORDER BY ALL")
    assert after == before


def test_alembic_is_imported_only_where_there_is_something_to_upgrade(oldest: Path) -> None:
    assert run(OPENS, oldest).stdout == "True\n"
    assert run(OPENS, oldest).stdout == "False\n"
    assert run(OPENS, oldest.with_name("new.duckdb")).stdout == "False\n"


def test_a_warehouse_has_no_comments_which_only_the_snapshot_needs(released: Path) -> None:
    comments = "SELECT comment FROM duckdb_tables() UNION ALL SELECT comment FROM duckdb_columns()"
    with connect(released) as connection:
        found = connection.db.execute(f"SELECT count(comment), count(*) > 100 FROM ({comments})").fetchall()
    assert found == [(0, True)]


def test_a_second_opening_changes_nothing(path: Path) -> None:
    for _ in range(2):
        with connect(path) as connection:
            assert schema(connection.db) == declared()
        assert ask(path, f"FROM {revisions.TABLE}") == [(revisions.HEAD,)]


def test_a_warehouse_of_a_newer_version_is_refused_and_not_changed(path: Path) -> None:
    with connect(path):
        pass
    change(path, f"UPDATE {revisions.TABLE} SET version_num = '4711'")
    before = path.read_bytes()
    message = refused(path)
    assert "written by a newer gramhouse (revision 4711" in message
    assert "upgrade gramhouse." in message
    with pytest.raises(WarehouseUnusable, match="revision 4711"):
        check(path, since=T0.isoformat(), pause=lambda _: None)
    assert path.read_bytes() == before


@pytest.mark.parametrize("done", ["DELETE FROM", f"INSERT INTO {revisions.TABLE} FROM"])
def test_a_warehouse_without_exactly_one_revision_is_refused(path: Path, done: str) -> None:
    with connect(path):
        pass
    change(path, f"{done} {revisions.TABLE}")
    assert "should contain one row" in refused(path)


def test_an_unrelated_file_is_refused_and_not_changed(path: Path) -> None:
    change(path, "CREATE TABLE precious AS SELECT 1 AS it")
    before = path.read_bytes()
    assert "main.precious" in refused(path)
    assert path.read_bytes() == before


def test_a_snapshot_is_not_a_warehouse(path: Path, tmp_path: Path) -> None:
    with connect(path) as connection:
        publish(connection, tmp_path / "s.duckdb", at=T0, version="1")
    assert "GRAMHOUSE_WAREHOUSE" in refused(tmp_path / "s.duckdb")


def test_a_file_with_no_table_yet_becomes_a_warehouse(path: Path) -> None:
    change(path)
    with connect(path) as connection:
        assert schema(connection.db) == declared()
    assert len(WAREHOUSE) == len(declared())


def test_removed_accounts_of_an_older_warehouse_get_the_period_of_their_removal(oldest: Path) -> None:
    change(
        oldest,
        "UPDATE core.accounts SET removed_at = TIMESTAMPTZ '2030-01-01 00:00:00+00'"
        " WHERE account_id = (SELECT min(account_id) FROM core.accounts)",
    )
    with connect(oldest):
        pass
    periods = "SELECT status, valid_to FROM core.account_status_history WHERE account_id = (SELECT min(account_id) {})"
    *_, last, removed = ask(oldest, periods.format("FROM core.accounts") + " ORDER BY valid_from")
    assert (removed, last[1].year) == (("removed", None), 2030)
