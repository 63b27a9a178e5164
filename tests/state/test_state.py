"""The state file: what lands, which runs are resumed, and which files belong together."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from connectors.state.database import State, open_state, open_state_read_only
from connectors.state.identity import bind_service, move_times, read_identity
from connectors.state.inbox import delete_landings, land, read_checkpoints, read_cooldowns, read_landings, reserve_seqs
from connectors.state.runs import begin_run, end_run
from models.checkpoint import Checkpoint, Landing, ScanState, ScopeCooldown
from models.clock import Ahead
from models.feeds import CATALOGUE, Partition, media
from models.files import Identity, WarehouseUnusable, find_mismatch
from models.runs import Outcome, OutcomeKind, RunState
from models.tables import STATE
from tests.api.listed import ListedApi, Records
from tests.operator import Operator
from tests.runs import synced

NOW = datetime(2026, 3, 1, 6, 15, 0, 123456, tzinfo=UTC)
POSTS = media("a", "posts")
DAY = timedelta(days=1)
BODY = b'{"items": [], "n": %d, "\xc3\xa9": "\\u00e9"}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def state(file: Path) -> Iterator[State]:
    with open_state(file) as state:
        yield state


def begin(state: State, run_id: str, kind: str = "sync", *, at: datetime = NOW, **texts: str | None) -> tuple[str, ...]:
    return state.write(begin_run, run_id, kind, pid=7, now=at, within=DAY, version="2", **texts)


def landings(state: State, after: int = 0) -> list[Landing]:
    return state.read(lambda connection: [*read_landings(connection, after)])


def page(number: int = 1, partition: Partition = POSTS, scan: str = "scan", **checkpoint: Any) -> Landing:  # noqa: ANN401
    at = Checkpoint(partition, scan, "run", NOW, NOW, f"cursor {number}", number, 50 * number)
    return Landing(partition, "run", scan, number, NOW, "c-1", BODY % number, replace(at, **checkpoint))


def cooldown(until: datetime, asked_at: datetime = NOW) -> ScopeCooldown:
    return ScopeCooldown("media:a", until, asked_at)


def test_a_new_file_has_all_tables_and_is_durable(file: Path) -> None:
    with open_state_read_only(file) as nothing:
        assert (nothing, file.exists()) == (None, False)
    with open_state(file) as opened, opened.engine.connect() as db:
        tables, journal, synchronous = (
            [*db.exec_driver_sql(query).scalars()]
            for query in ("SELECT name FROM sqlite_master", "PRAGMA journal_mode", "PRAGMA synchronous")
        )
    assert ({*STATE.tables} <= {*tables}, journal, synchronous) == (True, ["wal"], [2])


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE identity SET schema_number = 99", r"newer gramhouse wrote it \(schema 99; .* Fix: upgrade gramhouse"),
        ("DROP TABLE identity", "not a state file of gramhouse. Fix: move it away"),
        (b"not a database, but a text that is long enough\n" * 100, r"cannot be used: [^\n]* Fix: [^\n]*$"),
        (b"SQLite format 3\0short", r"cannot be used: [^\n]* Fix: [^\n]*$"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_unchanged(file: Path, statement: str | bytes, message: str) -> None:
    if isinstance(statement, bytes):
        file.write_bytes(statement)
    else:
        with open_state(file):
            pass
        with sqlite3.connect(file) as db:
            db.execute(statement)
        db.close()
    content = file.read_bytes()
    for opened in (open_state, open_state_read_only):
        with pytest.raises(WarehouseUnusable, match=message), opened(file):
            pass
    assert file.read_bytes() == content


def test_an_erasure_fails_while_another_reader_keeps_what_was_deleted(state: State, file: Path) -> None:
    state.write(land, [page()])
    with open_state_read_only(file) as reader:
        assert reader is not None
        with reader.reading() as connection:
            connection.exec_driver_sql("SELECT count(*) FROM inbox").all()
            state.write(delete_landings, 1)
            with pytest.raises(WarehouseUnusable, match="is being read, so its log still has what was erased"):
                state.erase()
    state.erase()


def test_the_last_landing_number_never_falls(state: State) -> None:
    begin(state, "run")
    assert state.write(land, [page(1), page(2)]) == 2
    state.write(delete_landings, 2)
    assert (landings(state), state.write(reserve_seqs, 3), state.write(land, [page(3)])) == ([], 2, 6)


def test_what_a_rebuild_lands_again_may_be_of_a_run_that_is_deleted(state: State) -> None:
    state.write(land, [Landing(POSTS, "deleted", page=1, received_at=NOW, body=BODY % 1)])
    assert [(one.run_id, one.run_seq) for one in landings(state)] == [("deleted", 0)]


def test_a_checkpoint_has_the_landing_of_its_scans_first_page(state: State) -> None:
    begin(state, "run")
    state.write(land, [page(1, CATALOGUE, "other"), page(1)])
    done = page(2, CATALOGUE, "other", state=ScanState.COMPLETE, cursor=None)
    state.write(land, [page(2, repeated_pages=3, empty_pages=4), done])
    found = state.read(read_checkpoints, ["a", "", "unknown"])
    assert found[POSTS] == Checkpoint(
        POSTS, "scan", "run", NOW, NOW, "cursor 2", 2, 100, began_seq=2, repeated_pages=3, empty_pages=4
    )
    assert (found[CATALOGUE].began_seq, found[CATALOGUE].state) == (1, ScanState.COMPLETE)
    assert [(one.began_seq, one.end is not None) for one in landings(state)] == [
        (1, False), (2, False), (2, False), (1, True),
    ]  # fmt: skip
    # Resumed by another process, from the checkpoint as it was read; and by a backfill, which has its own.
    resumed = replace(page(3), checkpoint=replace(found[POSTS], pages=3))
    state.write(land, [resumed, page(1, scan="backfill", run_kind="backfill", had_expired_token=True)])
    assert state.read(read_checkpoints, ["a"])[POSTS].began_seq == 2
    of_backfill = state.read(read_checkpoints, ["a"], "backfill")[POSTS]
    assert (of_backfill.scan_id, of_backfill.had_expired_token) == ("backfill", True)


def test_nothing_lands_of_a_batch_that_cannot_be_stored_and_the_longest_cooldown_counts(state: State) -> None:
    begin(state, "run")
    with pytest.raises(UnicodeEncodeError):
        state.write(land, [page(1), replace(page(2), correlation_id="\ud800")])
    assert (landings(state), state.read(read_checkpoints, ["a"])) == ([], {})
    # The longest cooldown counts; it has no number.
    until = NOW + timedelta(hours=1)
    state.write(land, [cooldown(NOW + timedelta(hours=hours)) for hours in (0.5, 1, 0.2)])
    assert [state.read(read_cooldowns, now=now) for now in (NOW, until)] == [{"media:a": until}, {}]
    assert state.read(read_identity).seq == 0
    # One of a clock that was ahead keeps its length.
    state.write(land, [cooldown(NOW + DAY + timedelta(hours=1), NOW + DAY)])
    assert state.write(move_times, now=NOW) == Ahead(1, NOW + DAY)
    assert state.read(read_cooldowns, now=NOW) == {"media:a": until}


def test_the_first_page_binds_the_state_to_the_service_of_its_run(state: State) -> None:
    begin(state, "run", base_url="https://run")
    begin(state, "later", base_url="https://later")
    # A run that got no page may have been sent to the wrong address.
    state.write(land, [Landing(POSTS, "run", outcomes=(Outcome(POSTS, "run", OutcomeKind.FAILED, NOW, NOW),))])
    assert state.read(read_identity).base_url is None
    state.write(land, [page(1), cooldown(NOW + DAY)])
    for address in ("https://run", "https://later"):
        # Another service gets no cursor and no wait of the one before.
        assert state.read(read_identity).base_url == "https://run"
        assert state.read(read_cooldowns, now=NOW) == {"media:a": NOW + DAY}
        state.write(bind_service, address)
    found = state.read(read_checkpoints, ["a"])[POSTS]
    assert (state.read(read_cooldowns, now=NOW), found.state, found.cursor) == ({}, ScanState.ABANDONED, None)


def test_runs_of_another_service_kind_or_selection_are_not_resumed(state: State) -> None:
    begin(state, "1", base_url="https://a")
    assert begin(state, "2", base_url="https://b") == ()
    assert begin(state, "3", base_url="https://a", selection="stories") == ()
    assert begin(state, "4", "backfill", base_url="https://a") == ()
    assert begin(state, "5", base_url="https://a") == ("1",)


# The earlier runs, newest first: id, the hours since each began, how it ended, what it resumed; and what is resumed.
@pytest.mark.parametrize(
    ("earlier", "resumed"),
    [
        ("c 1 interrupted b, b 2 interrupted a, a 3 interrupted -", "cba"),
        ("c 1 interrupted b, b 25 interrupted -", "c"),
        ("c 1 interrupted b, b 2 published a, a 3 interrupted -", "c"),
        ("b 1 published a, a 2 interrupted -", ""),
        # A snapshot was published after the interruption.
        ("b 1 killed a, a 2 interrupted -", "ba"),
        ("b 1 complete a, a 2 interrupted -", "ba"),
        ("b 1 interrupted forgotten", "b"),
        ("b 1 interrupted a, a 24 interrupted -", "ba"),
        ("b 1 interrupted a, a 24.01 interrupted -", "b"),
        ("b -1 interrupted -", ""),
    ],
)
def test_a_run_resumes_the_chain_of_unfinished_runs(state: State, earlier: str, resumed: str) -> None:
    for run in reversed(earlier.split(", ")):
        run_id, hours, ended, resumes = run.split()
        at = NOW - timedelta(hours=float(hours))
        begin(state, run_id, at=at)
        run_state = RunState.INTERRUPTED if ended in ("interrupted", "killed") else RunState.COMPLETE
        published_at = NOW if ended in ("published", "killed") else None
        state.write(end_run, run_id, run_state, now=at, resumes=resumes, published_at=published_at)
    assert begin(state, "new") == tuple(resumed)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders with the files after a sync, and after that of the next day."""
    first, both = tmp_path_factory.mktemp("first") / "data", tmp_path_factory.mktemp("both") / "data"
    first.mkdir()
    sync(first, 0)
    shutil.copytree(first, both)
    sync(both, 1)
    return first, both


def sync(folder: Path, number: int) -> None:
    """Sync three accounts with two pages of posts each; a later day has other captions, and fewer posts."""

    def changed(items: Records) -> Records:
        return [item | {"caption": f"day {number}"} for item in items[number:]]

    api = ListedApi(posts=4, change_posts=changed)
    api.clock.days(number)
    assert asyncio.run(synced(folder, api, page_size=2)).state is RunState.COMPLETE


def replace_file(folder: Path, name: str, backup: Path) -> None:
    """Restore a file or folder from a backup, which has no log."""
    for path in folder.glob(f"{name}*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name in (name, f"{name}-wal", f"{name}-shm", f"{name}.wal"):
            path.unlink()
    (shutil.copytree if (backup / name).is_dir() else shutil.copy)(backup / name, folder / name)


WAREHOUSE, FILE = "warehouse.duckdb", "warehouse.duckdb.state.sqlite"
ALONE = rf"{FILE} and \S+{WAREHOUSE} do not belong together: one of them was restored or copied alone"

# The files that are restored from the day before, the one that is missing, and what a run says.
APART = {
    "an older state": ([FILE], "", ALONE),
    "an older warehouse": ([WAREHOUSE], "", ALONE),
    "no state": ([], FILE, f"{FILE} is missing"),
    "no warehouse": ([], WAREHOUSE, f"{WAREHOUSE} is missing"),
    "an older raw store": (["raw"], "", "lacks the last rows that the warehouse has there"),
    "a newer raw store": ([FILE, WAREHOUSE], "", "is newer than the warehouse"),
}


@pytest.mark.parametrize(("restored", "missing", "told"), APART.values(), ids=APART)
def test_files_that_do_not_belong_together_are_refused_and_unchanged(
    days: tuple[Path, Path], tmp_path: Path, restored: list[str], missing: str, told: str
) -> None:
    first, both = days
    folder = shutil.copytree(both, tmp_path / "data")
    for name in restored:
        replace_file(folder, name, first)
    if missing:
        (folder / missing).unlink()
    before = {path: path.read_bytes() for path in (*folder.rglob("*.parquet"), *folder.glob("*.duckdb"))}
    for _ in range(2):
        with pytest.raises(WarehouseUnusable, match=rf"{told}.*Fix: "):
            sync(folder, 2)
    assert {path: path.read_bytes() for path in (*folder.rglob("*.parquet"), *folder.glob("*.duckdb"))} == before
    # The other files of the same backup make it whole.
    for name in (FILE, WAREHOUSE, "raw"):
        replace_file(folder, name, first)
    sync(folder, 1)
    query = "SELECT account_id, surface, media_id, caption, missed_at FROM core.media ORDER BY ALL"
    assert Operator(folder).inside(query) == Operator(both).inside(query)


def test_which_files_belong_together() -> None:
    for of_state, of_warehouse, wrong in (
        (Identity("", 0), Identity("", 0), ""),
        (Identity("b", 5), Identity("b", 5), ""),
        (Identity("b", 5), Identity("b", 3), ""),
        # Killed between the two tokens, the first time and later.
        (Identity("", 0), Identity("a", 0, ""), ""),
        (Identity("a", 5), Identity("b", 5, "a"), ""),
        # One of them is older, or missing.
        (Identity("a", 5), Identity("b", 5), "do not belong together"),
        (Identity("b", 5), Identity("a", 5), "do not belong together"),
        (Identity("b", 4), Identity("b", 5), "do not belong together"),
        (Identity("", 0), Identity("b", 5), "{state} is missing"),
        (Identity("b", 5), Identity("", 0), "{warehouse} is missing"),
    ):
        found = find_mismatch(of_state, of_warehouse)
        assert (found is None) if not wrong else (found is not None and wrong in found and "Fix: " in found)
