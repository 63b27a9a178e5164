"""Waiting for the writer lock, on a virtual clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from connectors.warehouse.storage import holder
from connectors.warehouse.storage.errors import WarehouseBusy
from connectors.warehouse.storage.holder import hold
from flows.config.settings import load
from flows.engine import resources
from flows.engine.resources import wait_for_turn, writing
from tests.clocks import VirtualClock

pytestmark = pytest.mark.anyio

HELD = "w.duckdb is held by gramhouse sync (process 7, since 02:15)."
BUSY = f"{HELD} Fix: wait until it has finished, or read the snapshot meanwhile."
FREE = "The warehouse is free; continuing."


class _NothingUnderWay:
    async def read_state(self, _: object) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize(
    ("held_for", "patience", "slept", "lines"),
    [
        (0, 60, [], []),
        (5, 60, [1] * 5, [f"{HELD} Waiting up to 1 min for the lock.", FREE]),
        (100, 3.5, [1, 1, 1, 0.5], [f"{HELD} Waiting up to 3.5 s for the lock."]),
    ],
    ids=["free", "freed", "held for too long"],
)
async def test_a_run_waits_for_the_warehouse_for_a_limited_time_and_names_the_holder_once(
    monkeypatch: pytest.MonkeyPatch,
    said: list[str],
    held_for: float,
    patience: float,
    slept: list[float],
    lines: list[str],
) -> None:
    clock = VirtualClock()

    @asynccontextmanager
    async def door(*_: object, **__: object) -> AsyncIterator[_NothingUnderWay]:
        if clock.passed < held_for:
            raise WarehouseBusy(BUSY)
        yield _NothingUnderWay()

    monkeypatch.setattr(resources, "open_warehouse", door)
    with nullcontext() if held_for < patience else pytest.raises(WarehouseBusy):
        async with writing(load(busy_wait=patience), "gramhouse sync", clock=clock):
            pass
    assert (clock.slept, said) == (slept, lines)


@pytest.mark.parametrize("patience", [0, 2.5])
async def test_a_command_that_rewrites_the_file_waits_for_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], patience: float
) -> None:
    monkeypatch.setattr(holder, "_PAUSE", 0.0)
    warehouse, clock = tmp_path / "w.duckdb", VirtualClock()
    warehouse.touch()
    settings = load(busy_wait=patience, warehouse=warehouse)
    await wait_for_turn(settings, "gramhouse compact", clock=clock)
    with hold(warehouse, "gramhouse sync", since="02:15", pause=lambda _: None), pytest.raises(WarehouseBusy):
        await wait_for_turn(settings, "gramhouse compact", clock=clock)
    assert (sum(clock.slept), len(said)) == (patience, 1 if patience else 0)
