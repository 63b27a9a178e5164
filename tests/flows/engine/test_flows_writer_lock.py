"""Waiting for the writer lock, on a virtual clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import pytest

from connectors.warehouse.storage.errors import WarehouseBusy
from flows.config.settings import load
from flows.engine import resources
from flows.engine.resources import writing
from tests.clocks import VirtualClock

pytestmark = pytest.mark.anyio

HELD = "w.duckdb is held by gramhouse sync (process 7, since 02:15)."
BUSY = f"{HELD} Fix: wait until it has finished, or read the snapshot meanwhile."
FREE = "The warehouse is free; continuing."


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
    async def door(*_: object, **__: object) -> AsyncIterator[str]:
        if clock.passed < held_for:
            raise WarehouseBusy(BUSY)
        yield "inside"

    monkeypatch.setattr(resources, "open_warehouse", door)
    with nullcontext() if held_for < patience else pytest.raises(WarehouseBusy):
        async with writing(load(busy_wait=patience), "gramhouse sync", clock=clock):
            pass
    assert (clock.slept, said) == (slept, lines)
