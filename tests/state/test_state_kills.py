"""A kill at any step, and a file restored alone: the result is exact, or refused by the name of the file."""

import asyncio
import os
import shutil
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from connectors.state.database import State
from connectors.state.inbox import land
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.runs import RunState
from tests import runs
from tests.api.listed import ListedApi
from tests.runs import stored, stored_state, synced

STATE = "warehouse.duckdb.state.sqlite"

# What analysts see of the items, without times and numbers of runs, which depend on how often a process was killed.
ROWS = {
    "items": "SELECT account_id, surface, media_id, caption, like_count, removed_at IS NULL FROM core.media",
    "versions": "SELECT account_id, surface, media_id, content FROM core.media_versions",
    "counts": "SELECT account_id, surface, media_id, metric, value FROM core.media_counts",
    "accounts": "SELECT account_id, ig_username, status FROM core.accounts",
    "missing": "SELECT account_id, surface, media_id FROM core.media WHERE missed_at IS NOT NULL",
    "scans": "SELECT resource, account_id, surface FROM core.closed_scans",
    "outcomes": "SELECT resource, account_id, surface, outcome FROM core.run_outcomes WHERE run_id IN (FROM last)",
    "parts": "SELECT count(*) FROM read_parquet('{folder}/raw/*/*.parquet')",
}
LAST = "WITH last AS (SELECT arg_max(run_id, seq) FROM core.runs) "


def rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {
        name: stored(folder, f"{LAST if 'last' in query else ''}{query.format(folder=folder)} ORDER BY ALL")
        for name, query in ROWS.items()
    }


def service(number: int) -> ListedApi:
    """Three accounts with two pages of posts each; a later day has other counts, and fewer posts."""

    def changed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item | {"like_count": number, "caption": f"day {number}"} for item in items[number:]]

    api = ListedApi(posts=4, change_posts=changed)
    api.clock.days(number)
    return api


def day(folder: Path, number: int) -> RunState:
    return asyncio.run(synced(folder, service(number), page_size=2)).state


def killed_at(nth: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that ends at its nth commit or change of a file; return whether that was before its end."""
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {0, 9}
        return code == 9
    # Other ids than those of the parent's runs.
    runs._IDS = count(1_000_000)  # noqa: SLF001
    left = nth

    def reach() -> None:
        nonlocal left
        left -= 1
        if not left:
            os._exit(9)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            reach()
            found = function(*arguments, **options)
            reach()
            return found

        return call

    db = duckdb.DuckDBPyConnection
    try:
        with patch.object(db, "commit", counted(db.commit)), patch.object(State, "write", counted(State.write)):
            for name in ("rename", "replace", "unlink"):
                setattr(Path, name, counted(getattr(Path, name)))
            work()
    except BaseException:  # noqa: BLE001 - a child must not continue with other tests
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@pytest.fixture(scope="module")
def first_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first") / "data"
    folder.mkdir()
    assert day(folder, 0) is RunState.COMPLETE
    return folder


@pytest.fixture(scope="module")
def both_days(first_day: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(first_day, tmp_path_factory.mktemp("both") / "data")
    assert day(folder, 1) is RunState.COMPLETE
    return folder


@pytest.mark.parametrize("stride", [23, pytest.param(1, marks=pytest.mark.long)])
def test_a_run_that_is_killed_at_each_step_leaves_what_an_uninterrupted_one_would(
    first_day: Path, both_days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    log = tmp_path / "log"
    write = State.write

    def logged(self: State, work: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as write
        done = write(self, work, *args, **options)
        with log.open("a") as file:
            landed = [one.checkpoint for one in args[0] if one.checkpoint] if work is land else []
            file.writelines(f"{one.partition}, then {one.cursor}\n" for one in landed)
        return done

    monkeypatch.setattr(State, "write", logged)
    expected, step = rows(both_days), 1
    while True:
        folder = shutil.copytree(first_day, tmp_path / "data")
        log.write_text("")
        was_killed = killed_at(step, lambda folder=folder: day(folder, 1))  # type: ignore[misc]
        # The next run after a published one asks for all pages again.
        is_published = stored_state(folder, "SELECT count(published_at) FROM runs") == [(2,)]
        if was_killed and not is_published:
            assert day(folder, 1) is RunState.COMPLETE
        assert rows(folder) == expected, step
        landed = log.read_text().splitlines()
        assert len(landed) == len(set(landed)) <= 11, "a page was asked for twice"
        assert stored_state(folder, "SELECT count(*) FROM inbox") == [(0,)]
        assert stored_state(folder, "SELECT count(*) FROM runs WHERE published_at IS NULL") == [(0,)]
        shutil.rmtree(folder)
        if not was_killed:
            break
        step += stride
    assert step > 60


def _restore(folder: Path, backup: Path, name: str) -> None:
    for path in folder.glob(f"{name}*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name in (name, f"{name}-wal", f"{name}-shm", f"{name}.wal"):
            path.unlink()
    (shutil.copytree if (backup / name).is_dir() else shutil.copy)(backup / name, folder / name)


@pytest.mark.parametrize("name", [STATE, "warehouse.duckdb"])
def test_a_file_that_was_restored_alone_is_refused_and_nothing_is_changed(
    first_day: Path, both_days: Path, tmp_path: Path, name: str
) -> None:
    folder = shutil.copytree(both_days, tmp_path / "data")
    _restore(folder, first_day, name)
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")} | {
        path: path.read_bytes() for path in folder.glob("*.duckdb")
    }
    with pytest.raises(WarehouseUnusable, match="one of them was restored or copied alone") as raised:
        day(folder, 2)
    assert str(folder / STATE) in str(raised.value)
    assert {path: path.read_bytes() for path in before} == before
    # The other files of the same backup make it whole.
    for other in (STATE, "warehouse.duckdb", "raw"):
        _restore(folder, first_day, other)
    assert day(folder, 1) is RunState.COMPLETE
    assert rows(folder) == rows(both_days)


@pytest.mark.parametrize("name", [STATE, "warehouse.duckdb"])
def test_a_file_that_is_missing_is_named(both_days: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(both_days, tmp_path / "data")
    (folder / name).unlink()
    for _ in range(2):
        with pytest.raises(WarehouseUnusable, match=f"{name} is missing"):
            day(folder, 2)
    shutil.copy(both_days / name, folder / name)
    assert day(folder, 2) is RunState.COMPLETE
