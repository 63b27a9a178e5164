"""An event loop on virtual time, which advances only when no task is ready."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from random import Random
from selectors import SelectorKey, SelectSelector
from typing import Any, TypeVar

T = TypeVar("T")

# The longest duration of a job in an executor, in virtual seconds.
_SLOWEST_JOB = 0.02


class Deadlock(Exception):  # noqa: N818 - named after the state
    """All tasks are waiting, or take too many steps: the run would never end."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of one process. Jobs for executors run on the loop itself, one after the other, each with a delay.

    More than `most_steps` steps count as an endless loop.
    """

    def __init__(self, start: float, random: Random) -> None:
        self.now = start
        self.steps, self.most_steps = 0, 100_000
        self._random = random
        self._free_at: dict[int, float] = {}
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run a job on the loop, after the earlier jobs of the same executor, also if nobody waits for it any more."""
        at = max(self.now, self._free_at.get(id(executor), 0.0)) + self._random.random() * _SLOWEST_JOB
        self._free_at[id(executor)] = at

        async def job() -> T:
            await asyncio.sleep(at - self.now)
            return func(*args)

        return asyncio.shield(self.create_task(job()))


class _Selector(SelectSelector):
    """Advances the time instead of waiting. There are no sockets but that with which the loop wakes itself."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self._loop.steps += 1
        if timeout is None or self._loop.steps > self._loop.most_steps:
            raise Deadlock("nothing is ready, and nothing will be" if timeout is None else "too many steps")
        # At least a microsecond: asyncio runs what is due before now and a nanosecond, which is now for a large number.
        self._loop.now += timeout and max(timeout, 1e-6)
        return []


def run_process(loop: VirtualLoop, body: Coroutine[Any, Any, T]) -> T:
    """Run a process until it ends, or its loop is stopped; then cancel its remaining tasks, and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(body)
        finally:
            loop.most_steps += loop.steps
