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
        self._now = start
        self._random = random
        self._free_at: dict[int, float] = {}
        self.steps, self.most_steps = 0, 100_000
        super().__init__(_Clock(self.advance))

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float | None) -> None:
        """Let time pass until the next task is ready. Raises Deadlock if none ever will be."""
        self.steps += 1
        if seconds is None or self.steps > self.most_steps:
            message = (
                "nothing is ready, and nothing will be" if seconds is None else f"more than {self.steps - 1} steps"
            )
            raise Deadlock(message)
        # At least a microsecond: asyncio runs what is due before now and a nanosecond, which is now for a large number.
        self._now += max(seconds, 1e-6)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run a job on the loop, after the earlier jobs of the same executor."""
        future: asyncio.Future[T] = self.create_future()

        def job() -> None:
            try:
                result = func(*args)
            except BaseException as error:  # noqa: BLE001 - passed on, as an executor does
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        at = max(self._now, self._free_at.get(id(executor), 0.0)) + self._random.random() * _SLOWEST_JOB
        self._free_at[id(executor)] = at
        self.call_at(at, job)
        return future


class _Clock(SelectSelector):
    """Waits in virtual time. There are no sockets but that with which the loop wakes itself, which nothing needs."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self._advance(timeout)
        return []


def run_process(loop: VirtualLoop, body: Coroutine[Any, Any, T]) -> T:
    """Run a process until it ends, or its loop is stopped; then cancel its remaining tasks, and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(body)
        finally:
            loop.most_steps += loop.steps
