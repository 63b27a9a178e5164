"""One writer at a time: a second one waits until the warehouse is free, or fails at once."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

from connectors.warehouse.storage.errors import WarehouseBusy
from flows.reporting.words import Say, span
from models.clock import Clock

T = TypeVar("T")

_LOOK_EVERY = 1.0


@asynccontextmanager
async def writer_lock(
    opening: Callable[[], AbstractAsyncContextManager[T]], *, patience: float, clock: Clock, say: Say
) -> AsyncIterator[T]:
    """Enter `opening()` when no other process holds the warehouse; wait up to `patience` seconds for that.

    One line reports the wait and names the holder. Raises WarehouseBusy when the time is over.
    """
    async with AsyncExitStack() as stack:
        until = clock.monotonic() + patience
        try:
            opened = await stack.enter_async_context(opening())
        except WarehouseBusy as busy:
            if not patience:
                raise
            say(f"{str(busy).split('. ')[0]}. Waiting up to {span(patience)} for the lock.")
            opened = await _enter(stack, opening, until, clock)
            say("The warehouse is free; continuing.")
        yield opened


async def _enter(
    stack: AsyncExitStack, opening: Callable[[], AbstractAsyncContextManager[T]], until: float, clock: Clock
) -> T:
    while True:
        await clock.sleep(min(_LOOK_EVERY, max(0.0, until - clock.monotonic())))
        try:
            return await stack.enter_async_context(opening())
        except WarehouseBusy:
            if clock.monotonic() >= until:
                raise
