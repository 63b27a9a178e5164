"""A warehouse of 0.2.0 is upgraded in one transaction, or refused with a reason and left unchanged."""

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from duckdb import DuckDBPyConnection
from sqlalchemy import Column, MetaData, insert, select
from sqlalchemy.schema import SchemaItem

from connectors.warehouse.ingest.landing.batches import read_merged
from connectors.warehouse.maintenance.inspection import inspect
from connectors.warehouse.runs.progress import seen
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.connection import connect, value
from connectors.warehouse.storage.declared import run as run_declared
from connectors.warehouse.storage.migrations import revisions, upgrade
from connectors.warehouse.warehouse import open_warehouse
from models.checkpoint import ScanState
from models.partition import CATALOGUE
from models.tables import METADATA, ops_service
from tests.warehouse.rig import ANNA, POSTS, STORIES, T0, Rig, Row, Scan, at, in_memory, refusal, unpack

ROOT = Path(__file__).parents[3]

Schema = dict[str, dict[str, tuple[str, bool]]]


DIES = """
import os, sys
from pathlib import Path
from connectors.warehouse.storage.connection import connect
with connect(Path(sys.argv[1])):
    os._exit(9)
"""


@pytest.fixture
def released(path: Path) -> Path:
    """The warehouse of 0.2.0."""
    return unpack(path.parent)


@pytest.fixture
def closed(released: Path) -> Path:
    """The warehouse of 0.2.0 without a log, so that opening it does not change the file."""
    change(released, "CHECKPOINT")
    return released


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
    " SEMI JOIN duckdb_tables() USING (database_oid, table_oid)"
    f" WHERE NOT internal AND schema_name || '.' || table_name != '{revisions.TABLE}'"
)


def schema(db: DuckDBPyConnection) -> Schema:
    return shaped(db.execute(COLUMNS).fetchall())


def declared() -> Schema:
    with in_memory() as connection:
        return schema(connection.db)


def contents(path: Path, columns: Schema) -> dict[str, list[Row]]:
    names = {table: ", ".join(f'"{name}"' for name in sorted(of_table)) for table, of_table in columns.items()}
    with duckdb.connect(str(path), read_only=True) as db:
        return {
            table: db.execute(f"SELECT {listed} FROM {table} ORDER BY ALL").fetchall()
            for table, listed in names.items()
        }


def refused(path: Path) -> str:
    message = refusal(lambda: connect(path).__enter__())
    assert str(path) in message
    return message


def inspected(path: Path) -> None:
    inspect(path, "gramhouse doctor", now=T0, pause=lambda _: None)


def test_the_revisions_known_without_alembic_are_those_that_alembic_finds() -> None:
    script = ScriptDirectory.from_config(upgrade.config())
    assert [found.revision for found in script.walk_revisions()] == list(reversed(revisions.REVISIONS))
    assert script.get_current_head() == revisions.HEAD


def differences(db: DuckDBPyConnection) -> list[tuple[object, ...]]:
    """Return what Alembic would change to get the declared tables, apart from comments and what fields have added."""
    database = str(value(db, "SELECT current_database()"))
    declared = MetaData()
    for table in METADATA.tables.values():
        table.to_metadata(declared, schema=f"{database}.{table.schema}")

    def is_compared(found: SchemaItem, name: str | None, *more: object) -> bool:
        to_media = isinstance(found, Column) and found.table.name in ("media", "media_superseded", "media_children")
        return more[-1] is not None or not (to_media or name in ("media_music", "alembic_version"))

    with upgrade.shared(db) as connection:
        context = MigrationContext.configure(connection, opts={"include_schemas": True, "include_object": is_compared})
        found = compare_metadata(context, declared)
    changes = [change for each in found for change in (each if isinstance(each, list) else [each])]
    return [change for change in changes if change[0] not in ("modify_comment", "add_table_comment")]


def test_a_new_warehouse_has_the_declared_tables_and_columns() -> None:
    with in_memory() as connection:
        # The comparison notices a column, its type, and whether it may be NULL; and nothing else differs.
        for change in ("DROP COLUMN reason", "ALTER COLUMN seq TYPE INTEGER", "ALTER COLUMN kind DROP NOT NULL"):
            connection.db.execute(f"ALTER TABLE core.runs {change}")
        assert sorted(str(change[0]) for change in differences(connection.db)) == [
            "add_column", "modify_nullable", "modify_type",
        ]  # fmt: skip


def test_sqlalchemy_never_ends_the_transaction_that_it_shares(path: Path) -> None:
    with connect(path) as opened:
        opened.db.begin()
        for end in ("commit", "rollback", "close"):
            with upgrade.shared(opened.db) as connection:
                connection.exec_driver_sql("CREATE OR REPLACE TABLE core.later AS SELECT 1 AS one")
                getattr(connection, end)()
        with upgrade.shared(opened.db) as connection, connection.begin():
            connection.exec_driver_sql("CREATE OR REPLACE TABLE core.later AS SELECT 2 AS one")
        assert opened.db.execute("FROM core.later").fetchall() == [(2,)]
        run_declared(opened, insert(ops_service).values(base_url="http://here"))
        assert run_declared(opened, select(ops_service.c.base_url)).fetchall() == [("http://here",)]
        opened.db.rollback()
        assert run_declared(opened, select(ops_service.c.base_url)).fetchall() == []
        assert "core.later" not in schema(opened.db)


def test_an_upgraded_warehouse_has_the_declared_tables_and_keeps_every_row(released: Path) -> None:
    columns = shaped(ask(released, COLUMNS))
    assert columns.keys() - declared().keys() == {"core.media_music", "ops.batch_logs", "ops.segments", "ops.staging"}
    assert all(contents(released, columns).values()), "a table of 0.2.0 is empty"
    # A kill right after the upgrade loses nothing.
    assert subprocess.run([sys.executable, "-c", DIES, str(released)], cwd=ROOT, check=False).returncode == 9
    with connect(released) as connection:
        assert differences(connection.db) == []
        upgraded = schema(connection.db)
        # Only the snapshot needs comments.
        of_tables = "duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, table_oid)"
        comments = f"SELECT comment FROM duckdb_tables() UNION ALL SELECT comment FROM {of_tables}"
        assert connection.db.execute(f"SELECT count(comment) FROM ({comments})").fetchall() == [(0,)]
        # The run of a stored row is the one that was under way.
        of_run = "FROM core.media AS m JOIN core.runs AS r ON r.seq = m.run_seq"
        under_way = connection.db.execute(f"SELECT count(*) > 0, bool_and(m.written_at >= r.started_at) {of_run}")
        assert under_way.fetchall() == [(True, True)]
    assert upgraded.keys() == {*METADATA.tables, "core.media_music"}
    kept = {
        table: {name: kind for name, kind in of_table.items() if name in upgraded[table]}
        for table, of_table in columns.items()
        if table in upgraded
    }
    after = contents(released, kept)
    assert ask(released, f"FROM {revisions.TABLE}") == [(revisions.HEAD,)]
    shutil.rmtree(released.parent)
    before = unpack(released.parent)
    # The checkpoint of a page that is not merged is with the page, in a segment.
    change(before, "DELETE FROM ops.checkpoints WHERE seq IN (SELECT seq FROM ops.staging)")
    assert after == contents(before, kept)


@pytest.mark.anyio
async def test_an_upgraded_warehouse_merges_what_was_landed_and_resumes_scans(released: Path) -> None:
    snapshot = released.with_name("analytics.duckdb")
    async with open_warehouse(released, "a test", now=at(400)) as warehouse:
        assert warehouse.recovered_runs == ("run-1",)
        found = await warehouse.checkpoints([ANNA])
        assert (found[STORIES].state, found[STORIES].cursor, found[STORIES].pages) == (
            ScanState.SCANNING, "stories-4/1", 1
        )  # fmt: skip
        (backfill,) = (await warehouse.checkpoints([ANNA], "backfill")).values()
        assert (backfill.state, backfill.cursor) == (ScanState.SCANNING, "posts-4/1")
        assert (await warehouse.checkpoints([""]))[CATALOGUE].cursor == "catalogue-2/1"
        assert list(await warehouse.read(seen, "posts-4")) == ["1"]
        # Its snapshot is replaced, because it names the same warehouse.
        await warehouse.alone(publish, snapshot, at=at(401), version="next")
    query = f"SELECT media_id, caption, removed_at IS NULL FROM media WHERE account_id = '{ANNA}' ORDER BY media_id"
    with open_snapshot(snapshot, with_raw=True) as opened:
        assert opened.query(query).rows == [
            ("1", "one", True), ("2", "two, edited", True), ("3", "three", True),
            ("s0", None, False), ("s1", None, False), ("s2", None, False), ("s9", "in a segment", True),
        ]  # fmt: skip
        # The raw store has the bytes of each item.
        counts = "SELECT count(*), count(DISTINCT (account_id, surface, media_id)) FROM"
        assert opened.query(f"{counts} raw_media").rows == opened.query(f"{counts} media").rows
        # Of its runs, the changes are known that its tables have.
        kinds = "SELECT change, count(*) FROM {} GROUP BY change ORDER BY change"
        assert opened.query(kinds.format("account_changes")).rows == [("new", 9), ("removed", 1), ("token_expired", 1)]
        removed = "count(*) FILTER (removal = 'removed'), count(*) FILTER (removal = 'expired')"
        stored = f"SELECT (SELECT count(*) FROM media_superseded), count(*), {removed} FROM media"
        [(changed, new, gone, expired)] = opened.query(stored).rows
        assert opened.query(kinds.format("changes")).rows == [
            ("changed", changed), ("counted", 3), ("expired", expired), ("new", new), ("removed", gone)
        ]  # fmt: skip
    assert list(released.parent.glob("*.segment-*")) == []


def test_items_and_rejected_records_of_0_2_0_are_recognized(released: Path) -> None:
    with connect(released) as connection:
        rig = Rig(connection)
        rig.seq = read_merged(connection).seq
        counts = "SELECT (SELECT count(*) FROM core.quarantine), (SELECT count(*) FROM core.media_superseded)"
        before, changed = rig.row(counts), "SELECT max(changed_at), count(*) FROM core.media"
        stored = rig.rows(f"SELECT media_id, gh_payload FROM {rig.kept()} WHERE account_id = '{ANNA}'")
        rows = rig.row(changed)
        page = ",".join(payload for media_id, payload in stored if "s" not in media_id)
        rig.record(Scan(POSTS, "again", at(500)).page([], at(500), text=f'{{"items":[{page},{{"nothing":"here"}}]}}'))
        assert (rig.row(counts), rig.row(changed)) == (before, rows)


def test_a_failed_upgrade_leaves_the_file_unchanged_and_is_reported(closed: Path) -> None:
    change(closed, "ALTER TABLE core.runs DROP COLUMN full_requests")
    before = closed.read_bytes()
    for _ in range(2):
        message = refused(closed)
        assert f"from revision 0021 to {revisions.HEAD} and is unchanged" in message
        assert "full_requests" in message
    assert closed.read_bytes() == before
    change(closed, "ALTER TABLE core.runs ADD COLUMN full_requests BIGINT")
    with connect(closed):
        pass
    assert ask(closed, f"FROM {revisions.TABLE}") == [(revisions.HEAD,)]


def test_a_later_revision_may_alter_a_table_that_an_earlier_one_fills(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(upgrade.FOLDER, folder)
    (folder / "versions/r9999_next.py").write_text(
        f"from alembic import op\nrevision, down_revision = '9999', '{revisions.HEAD}'\n"
        "def upgrade(): op.execute('ALTER TABLE core.accounts ADD COLUMN later VARCHAR')\n"
        """def fill(connection): connection.exec_driver_sql("UPDATE core.accounts SET later = 'filled'")\n"""
    )
    monkeypatch.setattr(upgrade, "FOLDER", folder)
    with duckdb.connect(str(released)) as db:
        db.begin()
        upgrade.upgrade(db, "9999")
        db.commit()
        query = "SELECT later, bool_or(run_seq IS NOT NULL) FROM core.accounts GROUP BY ALL"
        assert db.execute(query).fetchall() == [("filled", True)]


SET, COPY = f"UPDATE {revisions.TABLE} SET version_num =", f"INSERT INTO {revisions.TABLE} FROM {revisions.TABLE}"
OLD = "only 0.2.0 can upgrade it. Fix: run `gramhouse publish` of gramhouse 0.2.0 once"
REVISIONS = [
    (f"{SET} '0020'", OLD),
    (f"DROP TABLE {revisions.TABLE}", OLD),
    (f"{SET} '4711'", "written by a newer gramhouse (revision 4711"),
    (f"DELETE FROM {revisions.TABLE}", "should contain one row"),
    (COPY, "should contain one row"),
]


@pytest.mark.parametrize(("changed", "why"), REVISIONS)
def test_a_warehouse_of_another_revision_is_refused_and_not_changed(path: Path, changed: str, why: str) -> None:
    with connect(path):
        pass
    change(path, changed)
    before = path.read_bytes()
    assert why in refused(path)
    assert why in refusal(lambda: inspected(path))
    assert path.read_bytes() == before


def test_an_unrelated_file_is_refused_and_not_changed(path: Path) -> None:
    change(path, "CREATE TABLE precious AS SELECT 1 AS it")
    before = path.read_bytes()
    assert "main.precious" in refused(path)
    assert path.read_bytes() == before


def test_a_snapshot_is_not_a_warehouse(path: Path, tmp_path: Path) -> None:
    with connect(path) as connection:
        Rig(connection).publish(tmp_path / "s.duckdb")
    assert "GRAMHOUSE_WAREHOUSE" in refused(tmp_path / "s.duckdb")


def test_missing_tables_are_created_and_others_kept(path: Path) -> None:
    columns = (
        "SELECT * EXCLUDE (database_oid, schema_oid, table_oid) FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    )
    with connect(path) as connection:
        whole = connection.db.execute(columns).fetchall()
        connection.db.execute("DROP TABLE core.account_status_history")
        assert connection.db.execute(columns).fetchall() != whole
    with connect(path) as connection:
        assert connection.db.execute(columns).fetchall() == whole
