"""What is kept long enough goes; what still matters stays, however old."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse import housekeeping, ledger
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.housekeeping import forget_runs, thin_outcomes, trim_archive
from connectors.warehouse.publish import publish
from connectors.warehouse.replay import Rebuilt, rebuild_from_archive
from connectors.warehouse.snapshot import open_snapshot
from connectors.warehouse.writer import open_warehouse
from models.landing import Landing
from models.ledger import Outcome, OutcomeKind, RunState, RunWarning
from models.partition import CATALOGUE, Partition, media
from tests.warehouse.archiving import ArchivedHouse, open_at, walked
from tests.warehouse.house import ANNA, BEN, POSTS, STORIES, T0, House, Row, Walk, account, at

ENDED = RunState.COMPLETE
CUT = RunState.INTERRUPTED


def run(
    house: House,
    run_id: str,
    hour: float,
    *partitions: Partition,
    state: RunState | None = ENDED,
    kind: str = "sync",
    selection: str | None = None,
    published: bool = True,
) -> None:
    """A run that lasts an hour and leaves an outcome of these partitions; one without a state is under way."""
    with house.connection.begin():
        told = {"within": timedelta(hours=12), "version": "1", "selection": selection}
        ledger.begin(house.connection, run_id, kind, now=at(hour), **told)  # type: ignore[arg-type]
    house.land(
        Landing(outcomes=tuple(Outcome(p, run_id, OutcomeKind.COMPLETE, at(hour), at(hour + 1)) for p in partitions))
    )
    with house.connection.begin():
        if state is not None:
            ledger.end(house.connection, run_id, state, now=at(hour + 1))
        if published:
            ledger.mark_published(house.connection, now=at(hour + 1))


def forget(house: House, hour: float) -> int:
    with house.connection.begin():
        return forget_runs(house.connection, before=at(hour))


def runs(house: House) -> list[str]:
    return [run_id for (run_id,) in house.rows("SELECT run_id FROM core.runs ORDER BY started_at")]


def outcomes(house: House) -> list[Row]:
    return house.rows("SELECT run_id, surface FROM core.run_outcomes ORDER BY ended_at, surface")


def test_runs_that_began_before_an_instant_go_with_their_outcomes_and_warnings(house: House) -> None:
    for night in range(4):
        run(house, f"night-{night}", 24 * night, POSTS, STORIES, CATALOGUE)
        with house.connection.begin():
            ledger.warn(house.connection, f"night-{night}", RunWarning("a", 1, "One."))
    assert forget(house, 48) == 2
    assert house.rows("SELECT run_id FROM core.run_warnings ORDER BY run_id") == [("night-2",), ("night-3",)]
    assert runs(house) == ["night-2", "night-3"]
    assert len(outcomes(house)) == 6
    assert forget(house, 48) == 0
    assert forget(house, 9999) == 1
    assert runs(house) == ["night-3"]


def test_what_went_well_goes_before_its_run_and_what_went_wrong_stays(house: House) -> None:
    for night in range(3):
        run(house, f"night-{night}", 24 * night, POSTS)
    house.land(Landing(outcomes=(Outcome(STORIES, "night-0", OutcomeKind.DENIED, at(0), at(1)),)))
    house.land(Landing(outcomes=(Outcome(CATALOGUE, "night-0", OutcomeKind.COMPLETE, at(0), at(1)),)))
    with house.connection.begin():
        thin_outcomes(house.connection, before=at(30))
    assert runs(house) == ["night-0", "night-1", "night-2"]
    # The catalogue's is the last there is of it.
    assert outcomes(house) == [("night-0", ""), ("night-0", "stories"), ("night-2", "posts")]
    with house.connection.begin():
        thin_outcomes(house.connection, before=at(30))
    assert len(outcomes(house)) == 3


def test_the_last_run_that_ended_of_each_kind_and_selection_stays(house: House) -> None:
    run(house, "old", 0, POSTS)
    run(house, "nightly", 1, POSTS, state=RunState.PARTIAL)
    run(house, "stories", 2, POSTS, selection="stories")
    run(house, "again", 3, POSTS, selection="stories", state=RunState.FAILED)
    run(house, "anna", 4, POSTS, kind="backfill", selection="anna: posts")
    run(house, "ben", 5, POSTS, kind="backfill", selection="ben: posts")
    assert forget(house, 9999) == 2
    assert runs(house) == ["nightly", "again", "anna", "ben"]


def test_a_run_under_way_and_what_may_be_carried_on_stay(house: House) -> None:
    run(house, "lost", 0, POSTS, state=CUT)
    run(house, "well", 1, POSTS)
    run(house, "cut", 2, POSTS, state=CUT, published=False)
    run(house, "cut again", 3, POSTS, state=CUT, published=False)
    assert house.value("SELECT carries_on FROM core.runs WHERE run_id = 'cut again'") == "cut"
    assert forget(house, 9999) == 1
    assert runs(house) == ["well", "cut", "cut again"]
    run(house, "under way", 4, POSTS, state=None, published=False)
    assert forget(house, 9999) == 0
    assert runs(house) == ["well", "cut", "cut again", "under way"]
    with house.connection.begin():
        ledger.end(house.connection, "under way", ENDED, now=at(5))
    assert forget(house, 9999) == 1
    assert runs(house) == ["cut", "cut again", "under way"], "its snapshot never came into place"
    with house.connection.begin():
        ledger.mark_published(house.connection, now=at(5))
    assert forget(house, 9999) == 2
    assert runs(house) == ["under way"]


def test_analysts_are_told_the_same_of_each_partition_as_before(house: House, tmp_path: Path) -> None:
    house.catalogue("c", 0, [account(ANNA, name="anna"), account(BEN, name="ben")])
    ben = media(BEN, "posts")
    run(house, "first", 1, POSTS, STORIES, ben)
    run(house, "second", 24, POSTS, ben)
    run(house, "third", 48, POSTS)
    told = freshness(house, tmp_path)
    assert [row[4] for row in told].count(None) == 1
    assert len(told) == 4
    assert forget(house, 9999) == 0
    assert runs(house) == ["first", "second", "third"]
    assert outcomes(house) == [("first", "stories"), ("second", "posts"), ("third", "posts")]
    assert freshness(house, tmp_path) == told
    run(house, "fourth", 72, POSTS, STORIES)
    assert forget(house, 9999) == 2
    assert runs(house) == ["second", "fourth"]


def freshness(house: House, folder: Path) -> list[Row]:
    publish(house.connection, folder / "s.duckdb", at=at(99), version="1")
    with open_snapshot(folder / "s.duckdb") as snapshot:
        return snapshot.ask("SELECT * EXCLUDE (stale_for, age_seconds, is_stale) FROM freshness ORDER BY ALL").rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def kept(path: Path, folder: Path) -> Iterator[ArchivedHouse]:
    """A warehouse of three nights, each in the archive: from the 1st to the 3rd of March."""
    with open_at(path, folder) as house:
        for night in range(3):
            house.land(*walked(f"w{night}", 24 * night))
            house.fold()
        yield house


def days(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("warehouse=*/day=*"))


def trim(house: ArchivedHouse, folder: Path, before: date) -> int:
    with house.connection.begin():
        return trim_archive(house.connection, folder, before=before)


def rebuild(path: Path, folder: Path, *, force: bool = False) -> Rebuilt:
    return rebuild_from_archive(path, folder, since=T0.isoformat(), pause=lambda _: None, force=force)


def test_days_of_the_archive_before_a_date_go_and_it_is_known_to_lack_them(kept: ArchivedHouse, folder: Path) -> None:
    assert days(folder) == ["day=2026-03-01", "day=2026-03-02", "day=2026-03-03"]
    assert trim(kept, folder, date(2026, 3, 1)) == 0
    assert kept.state().complete
    before = kept.state()
    assert trim(kept, folder, date(2026, 3, 3)) == 2
    assert days(folder) == ["day=2026-03-03"]
    assert not kept.state().complete
    assert (kept.state().folds, kept.state().landings) == (before.folds, before.landings)
    assert trim(kept, folder, date(2026, 3, 3)) == 0
    kept.land(*walked("next", 72))
    kept.fold()
    assert days(folder) == ["day=2026-03-03", "day=2026-03-04"]
    assert not kept.state().complete


def test_what_was_trimmed_is_said_when_the_warehouse_is_to_be_made_anew(path: Path, folder: Path) -> None:
    with open_at(path, folder) as house:
        house.land(*walked("old", 0, pages=3), Walk(STORIES, "new", at(30)).page([{"id": "9"}], at(30), last=True))
        house.fold()
        assert trim(house, folder, date(2026, 3, 2)) == 1
    before = path.read_bytes()
    with pytest.raises(WarehouseUnusable, match="it was trimmed, of 4 landings it holds 1") as told:
        rebuild(path, folder)
    assert len(str(told.value).splitlines()) == 1
    assert path.read_bytes() == before
    assert rebuild(path, folder, force=True).landings == 1
    with duckdb.connect(str(path), read_only=True) as db:
        assert db.execute("SELECT media_id FROM core.media").fetchall() == [("9",)]
    assert rebuild(path, folder).complete


class Killed(BaseException):
    pass


@pytest.mark.parametrize("death", [Killed(), OSError(5, "Input/output error")], ids=["killed", "a broken disk"])
def test_whoever_dies_amid_a_trim_claims_nothing(
    folder: Path, kept: ArchivedHouse, death: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Path] = []
    real = Path.unlink

    def second_fails(self: Path, *, missing_ok: bool = False) -> None:
        done.append(self)
        if len(done) == 2:
            raise death
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", second_fails)
    with pytest.raises(Killed if isinstance(death, Killed) else WarehouseUnusable) as told:
        trim(kept, folder, date(2026, 3, 3))
    monkeypatch.undo()
    if not isinstance(death, Killed):
        assert f"the archive {folder} cannot be trimmed: Input/output error." in str(told.value)
    assert not kept.state().complete
    assert days(folder) == ["day=2026-03-02", "day=2026-03-03"]
    assert trim(kept, folder, date(2026, 3, 3)) == 1
    assert days(folder) == ["day=2026-03-03"]


def test_the_note_is_durable_before_the_first_file_goes(
    path: Path, folder: Path, kept: ArchivedHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Row] = []
    real = Path.unlink

    def look_first(self: Path, *, missing_ok: bool = False) -> None:
        copy = tmp_path / "copy.duckdb"
        for name in ("", ".wal"):
            copy.with_name(copy.name + name).write_bytes(path.with_name(path.name + name).read_bytes())
        with duckdb.connect(str(copy)) as db:
            noted.extend(db.execute("SELECT complete FROM ops.archive").fetchall())
        real(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", look_first)
    assert trim(kept, folder, date(2026, 3, 2)) == 1
    assert noted == [(False,)]


def test_what_is_not_this_warehouses_is_left_alone(kept: ArchivedHouse, folder: Path) -> None:
    home = next(folder.glob("warehouse=*"))
    others = [
        folder / "warehouse=other" / "day=2026-03-01" / "pages-000000001.parquet",
        home / "day=yesterday" / "pages-000000001.parquet",
        home / "day=2026-03-01" / "README",
        home / "day=2026-02-01" / "mine",
    ]
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        other.touch()
    (home / "day=2026-03-01" / ".pages-000000001.parquet.next").touch()
    assert trim(kept, folder, date(2026, 3, 3)) == 2
    assert sorted(path for path in folder.rglob("*") if path.is_file() and path not in others) == [
        home / "day=2026-03-03" / "pages-000000003.parquet"
    ]
    assert all(other.exists() for other in others)
    assert trim(kept, folder, date(2026, 3, 3)) == 0


def test_a_warehouse_without_an_archive_has_nothing_to_trim(path: Path, folder: Path) -> None:
    with open_at(path, None) as house:
        assert trim(house, folder, date(2030, 1, 1)) == 0
        house.archive_in(folder)
        assert trim(house, folder, date(2030, 1, 1)) == 0
        assert house.state().complete


@pytest.mark.anyio
async def test_the_writer_does_both(path: Path, folder: Path) -> None:
    with open_at(path, folder) as house:
        house.land(*walked("w", 0))
        house.fold()
        run(house, "old", 0, POSTS)
        run(house, "new", 24, POSTS)
    async with open_warehouse(path, "a test", now=T0, archive=folder) as warehouse:
        assert await warehouse.transact(forget_runs, before=at(24)) == 1
        assert await warehouse.transact(trim_archive, folder, before=date(2026, 3, 2)) == 1
        assert await warehouse.transact(forget_runs, before=at(24)) == 0
    with open_at(path, folder) as house:
        assert runs(house) == ["new"]
        assert not house.state().complete


def test_days_are_durably_gone(kept: ArchivedHouse, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(housekeeping, "sync", lambda path: synced.append(path.name))
    trim(kept, folder, date(2026, 3, 2))
    assert synced == ["day=2026-03-01", next(folder.glob("warehouse=*")).name]
