"""What a fold clears is in the archive first: each landing once, whatever dies in between."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse import archive
from connectors.warehouse.archive import keep
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.writer import open_warehouse
from models.landing import Landing
from models.tables import ops_checkpoints, ops_staging
from tests.warehouse.archiving import ArchivedHouse, open_at, walked
from tests.warehouse.house import POSTS, STORIES, T0, Row, Walk, at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def house(path: Path, folder: Path) -> Iterator[ArchivedHouse]:
    with open_at(path, folder) as opened:
        yield opened


def ask(folder: Path, query: str) -> list[Row]:
    """Ask the archive as any engine may; `archive` stands for its files."""
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"CREATE VIEW archive AS FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)")
        return db.execute(query).fetchall()


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_row_holds_both_halves_of_a_landing_exactly(house: ArchivedHouse, folder: Path) -> None:
    walk = Walk(STORIES, "s", at(0), lane="backfill")
    house.land(Landing(checkpoint=walk.checkpoint))
    house.land(*walked("w", 0), walk.page([], at(1), unknown_fields=("total",)), walk.abandon(at(2)))
    staging = house.rows("SELECT * FROM ops.staging ORDER BY seq")
    checkpoints = house.rows("SELECT * FROM ops.checkpoints ORDER BY seq")
    house.fold()
    pages = ", ".join(ops_staging.columns.keys())
    said = ", ".join("seq" if name == "seq" else f"checkpoint_{name}" for name in ops_checkpoints.columns.keys())  # noqa: SIM118
    assert ask(folder, f"SELECT {pages} FROM archive WHERE body IS NOT NULL ORDER BY seq") == staging
    assert ask(folder, f"SELECT {said} FROM archive WHERE checkpoint_state IS NOT NULL ORDER BY seq") == checkpoints
    assert (len(staging), len(checkpoints)) == (3, 5)
    lanes = "SELECT checkpoint_lane, count(*) FROM archive GROUP BY ALL ORDER BY ALL"
    assert ask(folder, lanes) == [("backfill", 3), ("sync", 2)]
    assert ask(folder, "SELECT DISTINCT resource, account_id, warehouse FROM archive") == [
        ("media", POSTS.account_id, house.state().warehouse_id)
    ]


def test_files_are_zstd_of_plain_types_by_the_utc_day_of_receipt(house: ArchivedHouse, folder: Path) -> None:
    house.connection.exec_driver_sql("SET TimeZone = 'Asia/Tokyo'")
    house.connection.commit()
    house.land(*walked("w", 21.99))
    house.fold()
    home = f"warehouse={house.state().warehouse_id}"
    assert names(folder) == [
        f"{home}/day=2026-03-01/pages-000000001.parquet",
        f"{home}/day=2026-03-02/pages-000000001.parquet",
    ]
    days = "SELECT day::VARCHAR, received_at::DATE::VARCHAR FROM archive ORDER BY seq"
    assert ask(folder, days) == [("2026-03-01", "2026-03-01"), ("2026-03-02", "2026-03-02")]
    files = f"'{folder}/**/*.parquet'"
    assert ask(folder, f"SELECT DISTINCT compression FROM parquet_metadata({files})") == [("ZSTD",)]
    types = {row[0] for row in ask(folder, f"SELECT DISTINCT type FROM parquet_schema({files}) WHERE type IS NOT NULL")}
    assert types == {"INT64", "INT32", "BYTE_ARRAY"}


def test_a_checkpoint_that_a_fold_left_is_not_archived_again(house: ArchivedHouse, folder: Path) -> None:
    house.land(*walked("w", 0, last=False))
    house.fold()
    before = names(folder)
    house.fold()
    assert names(folder) == before
    house.land(*walked("w2", 5))
    house.fold()
    assert ask(folder, "SELECT fold, seq FROM archive ORDER BY ALL") == [(1, 1), (1, 2), (2, 3), (2, 4)]
    assert (house.state().folds, house.state().landings, house.state().complete) == (2, 4, True)


def test_a_number_given_twice_is_told_by_its_fold(path: Path, folder: Path) -> None:
    alone = replace(walked("again", 3)[0], checkpoint=None)
    with open_at(path, folder) as house:
        house.land(*walked("w", 0), alone)
        house.fold()
    with open_at(path, folder) as house:
        assert house.seq == 2
        house.land(*walked("w2", 5))
        house.fold()
        assert house.state().landings == 5
    assert ask(folder, "SELECT fold, walk_id FROM archive WHERE seq = 3 ORDER BY ALL") == [(1, "again"), (2, "w2")]


class Killed(BaseException):
    pass


def test_killed_between_the_rename_and_the_commit_each_landing_is_there_once(
    house: ArchivedHouse, folder: Path
) -> None:
    house.land(*walked("w", 0))
    house.fold()
    house.land(*walked("x", 20, pages=3))
    with pytest.raises(Killed):
        house.fold_and_die(Killed())
    assert house.value("SELECT count(*) FROM ops.staging") == 3
    assert ask(folder, "SELECT count(*), count(DISTINCT seq) FROM archive") == [(5, 5)]
    house.land(*walked("y", 30))
    house.fold()
    assert ask(folder, "SELECT seq, fold FROM archive ORDER BY ALL") == [(1, 1), (2, 1), *((n, 2) for n in range(3, 8))]
    assert (house.state().folds, house.state().landings) == (2, 7)


def test_killed_between_the_files_of_two_days_nothing_is_doubled(
    house: ArchivedHouse, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.land(*walked("w", 0), *walked("x", 30))
    real = Path.replace
    renamed: list[Path] = []

    def once(self: Path, target: Path) -> Path:
        if renamed:
            raise Killed
        renamed.append(target)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", once)
    with pytest.raises(Killed):
        house.fold()
    monkeypatch.undo()
    assert len(names(folder)) == 1
    house.land(*walked("y", 40))
    house.fold()
    assert ask(folder, "SELECT walk_id, count(*) FROM archive GROUP BY ALL ORDER BY ALL") == [
        ("w", 2),
        ("x", 2),
        ("y", 2),
    ]


def full_disk(_: Path) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("broken", ["a file", "full", "vanished"])
def test_an_archive_that_cannot_be_written_stops_the_fold_and_nothing_is_lost(
    house: ArchivedHouse, folder: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.land(*walked("w", 0))
    house.fold()
    before = house.state()
    house.land(*walked("x", 1))
    if broken == "a file":
        (folder / "f").touch()
        house.folder = folder / "f"
    elif broken == "full":
        monkeypatch.setattr(archive, "sync", full_disk)
    else:
        monkeypatch.setattr(archive, "_make", lambda _: None)
        house.folder = folder.with_name("nowhere")
    with pytest.raises(WarehouseUnusable, match="GRAMHOUSE_ARCHIVE") as told:
        house.fold()
    assert len(str(told.value).splitlines()) == 1
    assert house.value("SELECT count(*) FROM ops.staging") == 2
    assert house.state() == before
    assert not [name for name in names(folder) if name.endswith(".next")]
    monkeypatch.undo()
    house.folder = folder
    house.fold()
    assert house.value("SELECT count(*) FROM ops.staging") == 0
    assert ask(folder, "SELECT count(*) FROM archive") == [(4,)]


def test_without_an_archive_the_warehouse_notes_nothing(path: Path) -> None:
    with open_at(path, None) as house:
        house.land(*walked("w", 0))
        house.fold()
        assert house.rows("SELECT 1 FROM duckdb_tables() WHERE table_name = 'archive'") == []
        with pytest.raises(ValueError, match="no name"), house.connection.begin():
            keep(house.connection, path.parent)


def test_switched_on_late_it_is_known_to_lack_something(path: Path, folder: Path) -> None:
    with open_at(path, None) as house:
        house.land(*walked("w", 0))
        house.fold()
        house.archive_in(folder)
        house.land(*walked("x", 1))
        house.fold()
        assert not house.state().complete
    assert ask(folder, "SELECT DISTINCT walk_id FROM archive") == [("x",)]


def test_a_fold_that_left_no_row_is_noticed_too(path: Path, folder: Path) -> None:
    with open_at(path, None) as house:
        walk = Walk(POSTS, "w", at(0))
        house.land(walk.page([], at(0)))
        house.fold()
        house.archive_in(folder)
        house.land(walk.page([], at(1)))
        house.fold()
        assert not house.state().complete


def test_what_was_landed_but_not_folded_before_the_switch_is_archived(path: Path, folder: Path) -> None:
    with open_at(path, None) as house:
        house.land(*walked("w", 0))
    with open_at(path, folder) as house:
        house.fold()
        assert house.state().complete
    assert ask(folder, "SELECT count(*) FROM archive") == [(2,)]


def test_switched_off_for_a_night_it_is_known_to_lack_that_night(path: Path, folder: Path) -> None:
    with open_at(path, folder) as house:
        house.land(*walked("w", 0))
        house.fold()
        house.archive_in(None)
        house.fold()
        assert house.state().complete
        house.land(*walked("x", 1))
        house.fold()
        assert not house.state().complete
        house.archive_in(folder)
        house.land(*walked("y", 2))
        house.fold()
    assert ask(folder, "SELECT DISTINCT fold, walk_id FROM archive ORDER BY 1") == [(1, "w"), (2, "y")]


def test_two_warehouses_one_after_another_keep_apart(path: Path, folder: Path) -> None:
    for _ in range(2):
        with open_at(path, folder) as house:
            house.land(*walked("w", 0))
            house.fold()
        path.unlink()
    assert [row[1] for row in ask(folder, "SELECT warehouse, count(*) FROM archive GROUP BY ALL")] == [2, 2]


def test_an_older_copy_of_the_warehouse_does_not_overwrite_what_came_after_it(path: Path, folder: Path) -> None:
    with open_at(path, folder) as house:
        house.land(*walked("w", 0))
        house.fold()
    older = path.read_bytes()
    with open_at(path, folder) as house:
        house.land(*walked("x", 1))
        house.fold()
    path.write_bytes(older)
    with open_at(path, folder) as house:
        house.land(*walked("y", 1))
        with pytest.raises(WarehouseUnusable, match="older copy"):
            house.fold()
        assert house.value("SELECT count(*) FROM ops.staging") == 2
    assert ask(folder, "SELECT DISTINCT walk_id FROM archive ORDER BY 1") == [("w",), ("x",)]


@pytest.mark.anyio
async def test_the_writer_archives_each_fold_of_its_own_and_those_asked_for(path: Path, folder: Path) -> None:
    opened: Callable[..., Any] = open_warehouse
    async with opened(path, "a test", now=T0, fold_bytes=1, archive=folder, new_id=lambda: "one") as warehouse:
        first, second = walked("w", 0)
        await warehouse.land(first)
        await warehouse.land(second)
        await warehouse.fold()
    assert ask(folder, "SELECT fold, seq, warehouse FROM archive ORDER BY ALL") == [(1, 1, "one"), (2, 2, "one")]
