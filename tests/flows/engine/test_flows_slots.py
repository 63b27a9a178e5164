"""Slots for scans, the stop signal, and tasks that fail together."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from connectors.sandbox.http.replies import PageRequest, Reply
from connectors.source.errors import client_error
from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.engine.concurrency import RequestSlots, RunStopped, Slots, StopSignal, fail_fast_group
from flows.pipeline import run_sync
from tests.api.listed import ListedApi
from tests.clocks import StillClock
from tests.harness.loop import VirtualLoop, run_process, unwind
from tests.runs import open_run_resources, request

pytestmark = pytest.mark.anyio


async def _free(slots: Slots) -> int:
    """Count the free slots by taking and returning them."""
    taken = 0
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0):
                await slots.acquire()
            taken += 1
    for _ in range(taken):
        slots.release()
    return taken


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_waiting_scan_releases_its_slot() -> None:
    slots, awake = Slots(1), asyncio.Event()

    async def sleeper() -> None:
        await slots.acquire()
        async with slots.release_slot():
            await awake.wait()
        slots.release()

    waiting = asyncio.create_task(sleeper())
    await _settle()
    assert slots.released == 1
    await slots.acquire()
    awake.set()
    await _settle()
    assert not waiting.done()
    slots.release()
    await waiting
    assert slots.released == 0
    assert await _free(slots) == 1


@pytest.mark.parametrize("waking", [False, True])
async def test_a_cancelled_waiting_scan_does_not_wait_for_a_slot(*, waking: bool) -> None:
    slots, awake = Slots(1), asyncio.Event()

    async def sleeper() -> None:
        await slots.acquire()
        try:
            async with slots.release_slot():
                await awake.wait()
        finally:
            slots.release()

    waiting = asyncio.create_task(sleeper())
    await _settle()
    await slots.acquire()
    if waking:
        awake.set()
        await _settle()
    waiting.cancel()
    await _settle()
    assert waiting.cancelled()
    assert slots.released == 0


LATENCY = 0.05


class Far(ListedApi):
    """An API whose responses take 50 ms of the loop's time."""

    in_flight: int = 0
    most: int = 0
    began: float = -1.0
    ended: float = 0.0

    async def answer(self, request: PageRequest) -> Reply:
        time = asyncio.get_running_loop().time
        self.began = time() if self.began < 0 else self.began
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(LATENCY)
            return await super().answer(request)
        finally:
            self.in_flight -= 1
            self.ended = time()


class NoTime(Random):
    """A loop on which work of other threads takes no time."""

    def random(self) -> float:
        return 0.0


def _fetch(folder: Path, service: Far, in_flight: int, *, landing: float = 0.0) -> float:
    """Run a sync of the posts on a virtual loop; return the seconds from the first request to the last response."""

    async def body() -> None:
        async with open_run_resources(folder, service, slots=Slots.for_requests(in_flight)) as resources:
            land = resources.warehouse.land

            async def slow(landed: object) -> None:
                await asyncio.sleep(landing)
                await land(landed)  # type: ignore[arg-type]

            resources.warehouse.land = slow  # type: ignore[method-assign,assignment]
            await run_sync(replace(request(folder), surfaces=("posts",), page_size=50), resources)

    loop = VirtualLoop(0.0, NoTime())
    asyncio.set_event_loop(loop)
    try:
        run_process(loop, body())
    finally:
        unwind(loop)
        asyncio.set_event_loop(None)
    return service.ended - service.began


@pytest.mark.parametrize("landing", [0.0, 0.02])
def test_every_slot_has_a_request_while_pages_land_and_to_the_end(tmp_path: Path, landing: float) -> None:
    service = Far(accounts=40, posts=200)
    seconds = _fetch(tmp_path, service, 16, landing=landing)
    # One page of the catalogue, and 160 pages of posts in 16 slots: 10 rounds. A slot for a whole scan would need 12.
    assert seconds <= (1 + 160 / 16) * LATENCY + 3 * landing + 0.001
    assert service.most == 16


async def test_the_longest_scan_goes_first_then_the_first_to_wait() -> None:
    slots, served = RequestSlots(1), list[str]()

    async def ask(name: str, pages: int) -> None:
        async with slots.one(pages):
            served.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name, pages in (("first", 0), ("a", 7), ("b", 0), ("long", 8), ("longer", 16)):
            group.create_task(ask(name, pages))
    assert served == ["first", "longer", "long", "a", "b"]


@pytest.mark.parametrize("handed_over", [False, True])
async def test_a_cancelled_request_keeps_no_slot(*, handed_over: bool) -> None:
    slots, entered = RequestSlots(1), list[int]()

    async def ask(number: int) -> None:
        async with slots.one(0):
            entered.append(number)

    async with slots.one(0):
        waiting = [asyncio.create_task(ask(number)) for number in range(2)]
        await _settle()
        if not handed_over:
            waiting[0].cancel()
            await _settle()
    if handed_over:
        # The slot belongs to the first waiter, which has not run yet.
        waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert entered == [1]
    async with asyncio.timeout(1), slots.one(0):
        pass


async def test_the_stop_signal_wakes_sleepers_and_keeps_the_first_error() -> None:
    stop_signal = StopSignal()
    sleeping = asyncio.create_task(stop_signal.sleep(StillClock(), 3600))
    await _settle()
    first, second = client_error("x", "timeout", "first").failure, client_error("x", "timeout", "second").failure
    stop_signal.check()
    stop_signal.set(first)
    stop_signal.set(second)
    await sleeping
    with pytest.raises(RunStopped) as stopped:
        stop_signal.check()
    assert stopped.value.failure is first


async def _fail(error: Exception) -> None:
    await asyncio.sleep(0)
    raise error


async def test_of_several_errors_the_fixable_one_is_raised() -> None:
    async def work() -> None:
        async with fail_fast_group() as group:
            group.create_task(_fail(ValueError("a bug")))
            group.create_task(_fail(WarehouseUnusable("full")))

    with pytest.raises(WarehouseUnusable):
        await work()
