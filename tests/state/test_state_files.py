"""A file of a warehouse that was restored alone, or is missing, is refused by its name, and nothing is changed."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse.storage.errors import WarehouseUnusable
from models.files import Identity, find_mismatch
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.runs import stored, synced

STATE = "warehouse.duckdb.state.sqlite"


def day(folder: Path, number: int) -> RunState:
    """Sync three accounts with two pages of posts each; a later day has other captions, and fewer posts."""

    def changed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item | {"caption": f"day {number}"} for item in items[number:]]

    api = ListedApi(posts=4, change_posts=changed)
    api.clock.days(number)
    return asyncio.run(synced(folder, api, page_size=2)).state


def rows(folder: Path) -> list[tuple[Any, ...]]:
    return stored(folder, "SELECT account_id, surface, media_id, caption, missed_at FROM core.media ORDER BY ALL")


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


@pytest.mark.parametrize(
    ("state", "warehouse", "wrong"),
    [
        (Identity("", 0), Identity("", 0), None),
        (Identity("b", 5), Identity("b", 5), None),
        (Identity("b", 5), Identity("b", 3), None),
        # Killed between the two tokens, the first time and later.
        (Identity("", 0), Identity("a", 0, ""), None),
        (Identity("a", 5), Identity("b", 5, "a"), None),
        # One of them is older.
        (Identity("a", 5), Identity("b", 5), "do not belong together"),
        (Identity("b", 5), Identity("a", 5), "do not belong together"),
        (Identity("b", 4), Identity("b", 5), "do not belong together"),
        # One of them is missing.
        (Identity("", 0), Identity("b", 5), "{state} is missing"),
        (Identity("b", 5), Identity("", 0), "{warehouse} is missing"),
    ],
)
def test_which_files_belong_together(state: Identity, warehouse: Identity, wrong: str | None) -> None:
    found = find_mismatch(state, warehouse)
    assert (found is None) if wrong is None else (found is not None and wrong in found and "Fix: " in found)
