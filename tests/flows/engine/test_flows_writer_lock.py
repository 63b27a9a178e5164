"""Waiting for the writer lock, on a virtual clock."""

from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from connectors.warehouse.storage import holder
from connectors.warehouse.storage.errors import WarehouseBusy
from connectors.warehouse.storage.holder import hold
from flows.config.settings import load
from flows.engine.warehouse import open_warehouse
from tests.clocks import VirtualClock

pytestmark = pytest.mark.anyio

HELD = "w.duckdb is held by gramhouse sync (process"


class Freeing(VirtualClock):
    """A clock with a lock, which its holder releases after some seconds."""

    def __init__(self, lock: ExitStack, seconds: float) -> None:
        super().__init__()
        self.lock, self.seconds = lock, seconds

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if self.passed >= self.seconds:
            self.lock.close()


@pytest.mark.parametrize(
    ("held_for", "patience", "slept", "lines"),
    [
        (0, 60, [], []),
        (5, 60, [1] * 5, [", since 02:15). Waiting up to 1 min for the lock."]),
        (100, 3.5, [1, 1, 1, 0.5], [", since 02:15). Waiting up to 3.5 s for the lock."]),
        (100, 0, [], []),
    ],
    ids=["free", "freed", "held for too long", "no patience"],
)
async def test_a_command_waits_for_the_warehouse_for_a_limited_time_and_names_the_holder_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: list[str],
    held_for: float,
    patience: float,
    slept: list[float],
    lines: list[str],
) -> None:
    monkeypatch.setattr(holder, "_PAUSE", 0.0)
    settings, lock = load(busy_wait=patience, warehouse=tmp_path / "w.duckdb"), ExitStack()
    clock = Freeing(lock, held_for)
    with lock, nullcontext() if held_for <= patience else pytest.raises(WarehouseBusy, match=r"Fix: wait until"):
        if held_for:
            lock.enter_context(hold(settings.warehouse, "gramhouse sync", since="02:15", pause=lambda _: None))
        async with open_warehouse(settings, "gramhouse publish", clock):
            pass
    assert clock.slept == slept
    assert [line.endswith(end) for line, end in zip(said, lines, strict=True)] == [True] * len(lines)
    assert all(HELD in line for line in said[:1])
