"""Places for walks, the brake, and tasks that fail together."""

import asyncio
from contextlib import suppress

import pytest

from connectors.source.errors import trouble
from connectors.warehouse.errors import WarehouseUnusable
from flows.run import Brake, Halted
from flows.slots import Slots
from flows.together import together
from tests.flows.stage import StillClock, VirtualClock

pytestmark = pytest.mark.anyio


async def _free(slots: Slots) -> int:
    """Count the places nobody has, by taking and giving them."""
    taken = 0
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0):
                await slots.take()
            taken += 1
    for _ in range(taken):
        slots.give()
    return taken


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_parks_gives_its_place_to_another() -> None:
    slots, awake = Slots(1), asyncio.Event()

    async def sleeper() -> None:
        await slots.take()
        async with slots.parked_outside():
            await awake.wait()
        slots.give()

    parked = asyncio.create_task(sleeper())
    await _settle()
    assert slots.parked == 1
    await slots.take()
    awake.set()
    await _settle()
    assert not parked.done()
    slots.give()
    await parked
    assert slots.parked == 0
    assert await _free(slots) == 1


@pytest.mark.parametrize("waking", [False, True])
async def test_a_cancelled_sleeper_never_waits_for_a_place(*, waking: bool) -> None:
    slots, awake = Slots(1), asyncio.Event()

    async def sleeper() -> None:
        await slots.take()
        try:
            async with slots.parked_outside():
                await awake.wait()
        finally:
            slots.give()

    parked = asyncio.create_task(sleeper())
    await _settle()
    await slots.take()
    if waking:
        awake.set()
        await _settle()
    parked.cancel()
    await _settle()
    assert parked.cancelled()
    assert slots.parked == 0
    assert await _free(slots) == 0
    slots.give()
    assert await _free(slots) == 1


async def test_past_the_bound_who_waits_keeps_the_place() -> None:
    slots = Slots(2, most_parked=1)
    await slots.take()
    await slots.take()
    async with slots.parked_outside():
        assert await _free(slots) == 1
        async with slots.parked_outside():
            assert (slots.parked, await _free(slots)) == (1, 1)
    slots.give()
    slots.give()
    assert (slots.parked, await _free(slots)) == (0, 2)


async def test_the_brake_wakes_sleepers_and_the_first_error_counts() -> None:
    brake = Brake()
    sleeping = asyncio.create_task(brake.sleep(StillClock(), 3600))
    await _settle()
    first, second = trouble("x", "timeout", "first").failure, trouble("x", "timeout", "second").failure
    brake.check()
    brake.pull(first)
    brake.pull(second)
    await sleeping
    with pytest.raises(Halted) as halted:
        brake.check()
    assert halted.value.error is first


async def test_the_brake_lets_a_sleep_end_by_itself_and_be_cancelled() -> None:
    clock, before = VirtualClock(), asyncio.all_tasks()
    await Brake().sleep(clock, 5)
    assert clock.passed == 5
    sleeping = asyncio.create_task(Brake().sleep(StillClock(), 5))
    await _settle()
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    await _settle()
    assert asyncio.all_tasks() == before


async def _fail(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def test_together_raises_the_error_and_not_a_group() -> None:
    root = OSError("disk")
    full = WarehouseUnusable("full")
    full.__cause__ = root

    async def inner() -> None:
        async with together() as group:
            group.create_task(_fail(full))

    async def outer() -> None:
        async with together() as group:
            group.create_task(inner())
            group.create_task(asyncio.Event().wait())

    with pytest.raises(WarehouseUnusable, match="full") as raised:
        await outer()
    assert raised.value.__cause__ is root


async def test_together_prefers_what_a_person_can_mend() -> None:
    async def work() -> None:
        async with together() as group:
            group.create_task(_fail(ValueError("a bug")))
            group.create_task(_fail(WarehouseUnusable("full")))

    with pytest.raises(WarehouseUnusable):
        await work()


async def test_together_passes_a_cancellation_on() -> None:
    async def work() -> None:
        async with together() as group:
            group.create_task(asyncio.Event().wait())

    task = asyncio.create_task(work())
    await _settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
