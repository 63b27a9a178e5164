"""From the archive alone the same warehouse: every table, every column, every row that analysts see."""

import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from connectors.warehouse import ledger, replay
from connectors.warehouse.archive import NOT_FOLDED
from connectors.warehouse.connection import connect
from connectors.warehouse.errors import WarehouseBusy, WarehouseUnusable
from connectors.warehouse.fold import fold as fold_for_real
from connectors.warehouse.holder import hold
from connectors.warehouse.migrations.upgrade import upgrade
from connectors.warehouse.publish import publish
from connectors.warehouse.replay import Rebuilt, rebuild_from_archive
from connectors.warehouse.run_counts import FoldCounts
from models.landing import Landing, ScopeHold
from models.ledger import Outcome, OutcomeKind, RunState
from models.partition import CATALOGUE, media
from models.tables import WAREHOUSE
from models.views import views
from tests.warehouse.archiving import ArchivedHouse, open_at, walked
from tests.warehouse.house import POSTS, T0, Row, Walk, account, at
from tests.warehouse.killed import the_story
from tests.warehouse.story import CODES, PARTITIONS, Story, tell

BIG = 10**9


def rebuild(path: Path, folder: Path, *, force: bool = False, fold_bytes: int = BIG) -> Rebuilt:
    since = T0.isoformat()
    return rebuild_from_archive(path, folder, since=since, pause=lambda _: None, force=force, fold_bytes=fold_bytes)


def rows_of(file: Path) -> dict[str, list[Row]]:
    """Every table of a DuckDB file: its columns and types, then its rows in the order in which they lie.

    Of a view its columns and its query, which may ask for the time of day.
    """
    found: dict[str, list[Row]] = {}
    with duckdb.connect(str(file), read_only=True) as db:
        tables = db.execute("SELECT schema_name || '.' || table_name, comment FROM duckdb_tables()").fetchall()
        for name, comment in tables:
            columns = [tuple(row) for row in db.execute(f"DESCRIBE {name}").fetchall()]
            found[name] = [(comment,), *columns, *db.execute(f"SELECT COLUMNS(*)::VARCHAR FROM {name}").fetchall()]
        views = "SELECT view_name, comment, sql FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        found["views"] = db.execute(views).fetchall()
    return found


def published(path: Path) -> dict[str, list[Row]]:
    """What analysts see: a snapshot published now of a copy, which changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        copy, snapshot = Path(folder, "w.duckdb"), Path(folder, "s.duckdb")
        shutil.copy(path, copy)
        with connect(copy) as connection:
            publish(connection, snapshot, at=at(10**4), version="test")
        return shown(snapshot)


def shown(snapshot: Path) -> dict[str, list[Row]]:
    """Every promised table of a snapshot: its columns and types, then its rows; of a computed view its query."""
    found: dict[str, list[Row]] = {}
    computed = {view.name for view in views()}
    with duckdb.connect(str(snapshot), read_only=True) as db:
        for name, comment, sql in db.execute(
            "SELECT view_name, comment, sql FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        ).fetchall():
            columns = [tuple(row) for row in db.execute(f"DESCRIBE {name}").fetchall()]
            texts = f"SELECT COLUMNS(*)::VARCHAR FROM {name}"
            rows = [(sql,)] if name in computed else sorted(db.execute(texts).fetchall(), key=repr)
            found[f"main.{name}"] = [(comment,), *columns, *rows]
    return found


def inside(path: Path) -> dict[str, list[Row]]:
    """The warehouse's own tables: DuckDB may lay out rows of one fold otherwise, so in no order."""
    return {name: sorted(rows, key=repr) for name, rows in rows_of(path).items() if name != "ops.archive"}


def tell_it(house: ArchivedHouse, story: Story, cuts: set[int], *, fold_the_end: bool = True) -> None:
    """Land a story with its runs, outcomes and promises to wait; fold it after the landings numbered in `cuts`."""
    done = 0
    for run, cut in enumerate((*sorted(cuts), len(story))):
        with house.connection.begin():
            ledger.begin(house.connection, f"run-{run}", "sync", now=at(run), within=timedelta(0), version="1")
        for landing, event in story[done:cut]:
            house.land(landing)
            if event.last and landing.checkpoint:
                ended = Outcome(landing.checkpoint.partition, f"run-{run}", OutcomeKind.COMPLETE, event.at, event.at)
                house.land(Landing(outcomes=(ended,), hold=ScopeHold(event.where[1], event.at)))
        with house.connection.begin():
            ledger.end(house.connection, f"run-{run}", RunState.COMPLETE, now=at(run + 1), accounts=cut)
        if cut != len(story) or fold_the_end:
            house.fold()
        done = max(done, cut)


CODE = st.integers(0, CODES - 1)
ROUNDS = st.lists(
    st.tuples(st.integers(1, 30), st.lists(CODE, min_size=len(PARTITIONS), max_size=len(PARTITIONS))),
    min_size=4,
    max_size=8,
)


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    rounds=ROUNDS,
    cuts=st.sets(st.integers(1, 60), min_size=1, max_size=8),
    fold_bytes=st.sampled_from((1, 2000, BIG)),
    fold_the_end=st.booleans(),
)
def test_any_story_comes_back_the_same(
    rounds: list[tuple[int, list[int]]],
    cuts: set[int],
    fold_bytes: int,
    fold_the_end: bool,  # noqa: FBT001
) -> None:
    story = list(tell(rounds))
    with tempfile.TemporaryDirectory() as home:
        path, folder = Path(home, "warehouse.duckdb"), Path(home, "archive")
        with open_at(path, folder) as house:
            tell_it(house, story, cuts, fold_the_end=fold_the_end)
        before, told = inside(path), published(path)
        rebuilt = rebuild(path, folder, fold_bytes=fold_bytes)
        assert rebuilt.complete
        assert inside(path) == before
        assert published(path) == told
        assert len(told["main.run_outcomes"]) > 2 or not any(event.last for _, event in story)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("made")
    with open_at(home / "warehouse.duckdb", home / "archive") as house:
        tell_it(house, the_story(), {7, 20, 31}, fold_the_end=False)
    return home


@pytest.fixture
def kept(made: Path, path: Path, folder: Path) -> Path:
    """A warehouse of some nights, archived from its beginning, with pages that are not folded yet."""
    shutil.copytree(made / "archive", folder)
    return Path(shutil.copy(made / "warehouse.duckdb", path))


def test_a_rebuilt_warehouse_goes_on_as_the_old_one_would(kept: Path, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    shutil.copy(kept, other)
    other_archive = shutil.copytree(folder, tmp_path / "other-archive")
    rebuild(kept, folder)
    for path, archive in ((kept, folder), (other, other_archive)):
        with open_at(path, archive) as house:
            assert house.value("SELECT count(*) FROM ops.staging") > 0
            house.land(*walked("later", 900))
            house.fold()
            assert house.state().complete
    assert published(kept) == published(other)
    assert inside(kept) == inside(other)
    told = published(kept)
    rebuild(kept, folder, fold_bytes=1)
    assert published(kept) == told


def test_what_is_compared_can_differ(kept: Path, folder: Path) -> None:
    told = published(kept)
    assert {name for name, rows in told.items() if len(rows) > 1} >= {
        f"main.{name}" for name in ("accounts", "media", "quarantine", "runs", "run_outcomes", "walks")
    }
    with open_at(kept, folder) as house:
        house.fold()
    assert published(kept) != told


def test_every_table_is_replayed_or_copied(kept: Path, folder: Path) -> None:
    names = {table.fullname for table in WAREHOUSE.sorted_tables}
    made_of_pages = {
        "core.accounts", "core.account_status_history", "core.media", "core.media_superseded", "core.media_metrics",
        "core.media_children", "core.walks", "core.quarantine", "core.fields", "ops.staging", "ops.checkpoints",
        "ops.seen", "ops.missing", "ops.missing_accounts", "core.run_counts",
    }  # fmt: skip
    assert names - {"ops.archive"} == made_of_pages | NOT_FOLDED
    assert made_of_pages.isdisjoint(NOT_FOLDED)
    with open_at(kept, folder) as house:
        house.do("CREATE TABLE ops.new_feature AS SELECT 1 AS a")
    with pytest.raises(WarehouseUnusable, match=r"ops\.new_feature"):
        rebuild(kept, folder)


def test_a_number_given_twice_is_replayed_in_the_order_of_the_folds(path: Path, folder: Path) -> None:
    alone = replace(Walk(POSTS, "again", at(3)).page([{"id": "7", "caption": "old"}], at(3)), checkpoint=None)
    with open_at(path, folder) as house:
        house.land(*walked("w", 0), alone)
        house.fold()
    with open_at(path, folder) as house:
        house.land(Walk(POSTS, "w2", at(5)).page([{"id": "7", "caption": "new"}], at(5)))
        house.fold()
    told = published(path)
    rebuild(path, folder)
    assert published(path) == told


OLDER = "0002"
COLUMNS = """
SELECT schema_name || '.' || table_name, column_name, data_type FROM duckdb_columns()
WHERE schema_name IN ('core', 'ops') AND database_name = current_database()
"""


def columns_at(revision: str) -> dict[str, dict[str, str]]:
    """The tables and columns of a warehouse at a revision."""
    engine = create_engine("duckdb://", poolclass=StaticPool)
    found: dict[str, dict[str, str]] = {}
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA ops")
        upgrade(connection, revision)
        for table, column, kind in connection.exec_driver_sql(COLUMNS):
            found.setdefault(table, {})[column] = kind
    return found


def as_before_lanes(path: Path, folder: Path) -> None:
    """The same warehouse and archive as a release that knew of no lanes would have written them."""
    older = columns_at(OLDER)
    with duckdb.connect(str(path)) as db:
        for name, table in WAREHOUSE.tables.items():
            if name not in older:
                db.execute(f"DROP TABLE {name}")
                continue
            for column in set(table.columns.keys()) - older[name].keys():
                db.execute(f"ALTER TABLE {name} DROP COLUMN {column}")
            for column in older[name].keys() - set(table.columns.keys()):
                db.execute(f"ALTER TABLE {name} ADD COLUMN {column} {older[name][column]}")
        db.execute(f"UPDATE ops.alembic_version SET version_num = '{OLDER}'")
        for file in folder.rglob("*.parquet"):
            db.execute(f"CREATE TEMP TABLE old AS SELECT * EXCLUDE (checkpoint_lane) FROM read_parquet('{file}')")
            db.execute(f"COPY (FROM old ORDER BY seq) TO '{file}' (FORMAT parquet)")
            db.execute("DROP TABLE temp.old")


def without_counts(tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """A rebuild counts what an older release did not record: which pages each run landed."""
    return {name: rows for name, rows in tables.items() if name != "main.runs"}


def test_what_was_archived_before_there_were_lanes_is_the_syncs(path: Path, folder: Path) -> None:
    with open_at(path, folder) as house:
        house.land(*walked("old", 0, pages=3), *walked("half-way", 5, last=False))
        house.fold()
    as_before_lanes(path, folder)
    with open_at(path, folder) as house:
        house.land(Walk(POSTS, "backfill", at(8), lane="backfill").page([{"id": "7"}], at(9)))
        house.fold()
        lanes = "SELECT walk_id, lane FROM ops.checkpoints ORDER BY 1"
        assert house.rows(lanes) == [("backfill", "backfill"), ("half-way", "sync")]
    told = without_counts(published(path))
    for fold_bytes in (1, BIG):
        assert rebuild(path, folder, fold_bytes=fold_bytes) == Rebuilt(folds=2, landings=6, complete=True)
        assert without_counts(published(path)) == told
        with open_at(path, folder) as house:
            assert house.rows(lanes) == [("backfill", "backfill"), ("half-way", "sync")]


def test_an_archive_with_nothing_but_files_of_before_lanes_is_replayed(path: Path, folder: Path) -> None:
    with open_at(path, folder) as house:
        house.land(*walked("old", 0, pages=3))
        house.fold()
    as_before_lanes(path, folder)
    assert rebuild(path, folder) == Rebuilt(folds=1, landings=3, complete=True)


def test_files_of_a_fold_that_was_never_committed_are_not_replayed(kept: Path, folder: Path) -> None:
    told = published(kept)
    with open_at(kept, folder) as house:
        with pytest.raises(ZeroDivisionError):
            house.fold_and_die(ZeroDivisionError())
        assert len(list(folder.rglob("pages-000000004.parquet"))) > 0
    rebuild(kept, folder)
    assert published(kept) == told


def refused(path: Path, folder: Path, why: str) -> None:
    before = path.read_bytes()
    with pytest.raises(WarehouseUnusable, match=why) as told:
        rebuild(path, folder)
    assert len(str(told.value).splitlines()) == 1
    assert path.read_bytes() == before
    assert sorted(one.name for one in path.parent.glob(".*")) == []
    with open_at(path, folder) as house:
        assert house.value("SELECT count(*) FROM core.runs") >= 0


def test_switched_on_late_it_is_refused_until_forced(path: Path, folder: Path) -> None:
    with open_at(path, None) as house:
        house.land(*walked("w", 0, pages=3))
        house.fold()
        house.archive_in(folder)
        house.land(*walked("x", 30, pages=1))
        house.fold()
    refused(path, folder, "does not hold all of this warehouse: some pages were folded")
    assert rebuild(path, folder, force=True) == Rebuilt(folds=1, landings=1, complete=False)
    assert len(published(path)["main.media"]) - len(rows_of_empty("main.media")) == 1
    assert rebuild(path, folder) == Rebuilt(folds=1, landings=1, complete=True)


def rows_of_empty(name: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "w.duckdb")
        with connect(path):
            pass
        return published(path)[name]


def test_never_archived_it_is_refused(path: Path, folder: Path) -> None:
    with connect(path):
        pass
    with pytest.raises(WarehouseUnusable, match="never synced with GRAMHOUSE_ARCHIVE"):
        rebuild(path, folder)
    with pytest.raises(WarehouseUnusable, match="no warehouse"):
        rebuild(path.with_name("nowhere.duckdb"), folder)


def test_a_missing_or_damaged_file_is_noticed(kept: Path, folder: Path) -> None:
    some = min(folder.rglob("*.parquet"))
    whole = some.read_bytes()
    some.unlink()
    refused(kept, folder, "landings it holds")
    some.write_bytes(whole[: len(whole) // 2])
    refused(kept, folder, "cannot be read")


def test_another_story_is_refused(kept: Path, folder: Path) -> None:
    with open_at(kept, folder) as house:
        house.do("UPDATE ops.checkpoints SET cursor = 'elsewhere' WHERE seq = (SELECT min(seq) FROM ops.checkpoints)")
    refused(kept, folder, "does not tell this warehouse's story")


def test_a_fold_that_fails_half_way_leaves_the_old_file(
    kept: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds: list[int] = []

    def second_fails(connection: object) -> FoldCounts:
        folds.append(1)
        if len(folds) == 2:
            message = "IO Error: No space left on device"
            raise duckdb.IOException(message)
        return fold_for_real(connection)  # type: ignore[arg-type]

    monkeypatch.setattr(replay, "fold", second_fails)
    with pytest.raises(WarehouseUnusable, match="stays as it was"):
        rebuild(kept, folder, fold_bytes=1)
    assert len(folds) == 2
    monkeypatch.undo()
    told = published(kept)
    rebuild(kept, folder)
    assert published(kept) == told


def test_a_draft_that_a_killed_rebuild_left_is_in_nobodys_way(kept: Path, folder: Path) -> None:
    told = published(kept)
    for name in (".warehouse.duckdb.rebuilt", ".warehouse.duckdb.rebuilt.wal"):
        kept.with_name(name).write_bytes(b"half a file")
    rebuild(kept, folder)
    assert published(kept) == told


def test_nobody_else_writes_meanwhile(kept: Path, folder: Path) -> None:
    with hold(kept, "a sync", since="now", pause=lambda _: None), pytest.raises(WarehouseBusy, match="a sync"):
        rebuild(kept, folder)


def test_each_of_two_warehouses_comes_back_from_one_archive(path: Path, folder: Path, tmp_path: Path) -> None:
    seen = []
    for item in ("first", "second"):
        with open_at(path, folder) as house:
            house.land(Walk(POSTS, "w", at(0)).page([{"id": item}], at(0), last=True))
            house.fold()
        seen.append(published(path)["main.media"])
        rebuild(path, folder)
        assert published(path)["main.media"] == seen[-1]
        path.rename(tmp_path / f"{item}.duckdb")
    assert seen[0] != seen[1]


def test_ids_that_were_stored_in_upper_case_are_in_lower_case_after_a_rebuild(path: Path, folder: Path) -> None:
    upper = POSTS.account_id.upper()
    with open_at(path, folder) as house:
        for hour in (0, 10):
            house.land(Walk(CATALOGUE, f"c{hour}", at(hour)).page([account(upper)], at(hour + 1), last=True))
            posts = Walk(media(upper, "posts"), f"p{hour}", at(hour + 1))
            house.land(posts.page([{"id": "7", "caption": f"{hour}"}], at(hour + 2), last=hour == 0))
            house.fold()
        for name in ("accounts", "account_status_history"):
            house.do(f"UPDATE core.{name} SET account_id = upper(account_id)")
    assert rebuild(path, folder) == Rebuilt(folds=2, landings=4, complete=True)
    with open_at(path, folder) as house:
        for table in ("core.accounts", "core.account_status_history", "core.media", "ops.seen"):
            assert house.rows(f"SELECT DISTINCT account_id FROM {table}") == [(POSTS.account_id,)]
        partitions = "SELECT DISTINCT account_id FROM ops.checkpoints WHERE resource = 'media'"
        assert house.rows(partitions) == [(POSTS.account_id,)]
