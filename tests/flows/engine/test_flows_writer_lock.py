"""Waiting for the writer lock, on a virtual clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from connectors.warehouse.storage.errors import WarehouseBusy
from flows.config.settings import load
from flows.engine import resources
from flows.engine.resources import writing
from tests.clocks import VirtualClock

pytestmark = pytest.mark.anyio

BUSY = (
    "w.duckdb is held by gramhouse sync (process 7, since 02:15). Fix: wait until it has finished, or read the snapshot"
    " meanwhile."
)


class Door:
    """A warehouse that other processes hold for `held_for` seconds."""

    def __init__(self, clock: VirtualClock, held_for: float) -> None:
        self.clock, self.held_for, self.knocks, self.open = clock, held_for, 0, False

    @asynccontextmanager
    async def __call__(self, *_: object, **__: object) -> AsyncIterator[str]:
        self.knocks += 1
        if self.clock.passed < self.held_for:
            raise WarehouseBusy(BUSY)
        self.open = True
        try:
            yield "inside"
        finally:
            self.open = False


async def enter(door: Door, patience: float) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resources, "open_warehouse", door)
        async with writing(load(busy_wait=patience), "gramhouse sync", clock=door.clock) as got:
            opened: object = got
            assert (opened, door.open) == ("inside", True)
    assert not door.open


async def test_a_free_warehouse_is_opened_without_a_message(said: list[str]) -> None:
    door = Door(VirtualClock(), 0)
    await enter(door, 60)
    assert (door.knocks, door.clock.slept, said) == (1, [], [])


async def test_a_waiting_run_names_the_holder_once(said: list[str]) -> None:
    door = Door(VirtualClock(), 5)
    await enter(door, 60)
    assert door.clock.passed == 5
    assert door.knocks == 6
    assert said == [
        "w.duckdb is held by gramhouse sync (process 7, since 02:15). Waiting up to 1 min for the lock.",
        "The warehouse is free; continuing.",
    ]


async def test_the_busy_wait_has_a_limit(said: list[str]) -> None:
    door = Door(VirtualClock(), 100)
    with pytest.raises(WarehouseBusy):
        await enter(door, 3.5)
    assert door.clock.passed == 3.5
    assert len(said) == 1
