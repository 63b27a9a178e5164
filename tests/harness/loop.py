"""An event loop on virtual time, which advances only when no task is ready. The loop can be killed."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from random import Random
from typing import Any, TypeVar, cast

T = TypeVar("T")

# The longest duration of a job in an executor, in virtual seconds.
_SLOWEST_JOB = 0.02


class Killed(BaseException):
    """The process was killed here, as by kill -9."""


class Deadlock(Exception):  # noqa: N818 - named after the state
    """All tasks are waiting: the run would never end."""


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one process. Jobs for executors run on the loop itself, one after the other, each with a delay.

    The process is killed before step `dies_at`. More than `most_steps` steps count as an endless loop.
    """

    # Attributes of asyncio's BaseEventLoop.
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self, start: float, random: Random, *, dies_at: int | None = None) -> None:
        super().__init__()
        self._now = start
        self._random = random
        self._dies_at = dies_at
        self._free_at: dict[int, float] = {}
        self.main: asyncio.Task[Any] | None = None
        self.steps = 0
        self.dead = self.killed = False
        self.most_steps = 100_000

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:  # noqa: SLF001
            heapq.heappop(self._scheduled)._scheduled = False  # noqa: SLF001
        if not self._ready:
            if not self._scheduled:
                message = "nothing is ready, and nothing will be"
                raise Deadlock(message)
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # noqa: SLF001
            self._now = max(self._now, timer.when())
            self._ready.append(timer)
        handle = self._ready.popleft()
        if handle._cancelled:  # noqa: SLF001
            return
        self.steps += 1
        if self.steps == self._dies_at and not self.dead:
            # `unwind` runs it later.
            self._ready.appendleft(handle)
            self.die()
            return
        if self.steps > self.most_steps:
            message = f"the run takes more than {self.most_steps:,} steps"
            raise Deadlock(message)
        handle._run()  # noqa: SLF001

    def die(self) -> None:
        """Stop before the next step."""
        self.dead = self.killed = True
        self.stop()

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run a job on the loop, after the earlier jobs of the same executor."""
        future: asyncio.Future[T] = self.create_future()
        if self.dead:
            future.set_exception(ConnectionAbortedError("the process is dead"))
            return future

        def job() -> None:
            result = None
            try:
                if not self.dead:
                    result = func(*args)
            except Killed:
                self.die()
            except Exception as error:  # noqa: BLE001 - passed on, as an executor does
                # In a killed process, an error is only a result of unwinding.
                if not self.dead and not future.done():
                    future.set_exception(error)
            if future.done():
                return
            if self.dead:
                future.set_exception(ConnectionAbortedError("the process is dead"))
            else:
                future.set_result(cast("T", result))

        key = id(executor)
        at = max(self._now, self._free_at.get(key, 0.0)) + self._random.random() * _SLOWEST_JOB
        self._free_at[key] = at
        self.call_at(at, job)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore errors of a killed process."""
        if not self.dead:
            super().call_exception_handler(context)

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Do nothing: there is no selector to wake up."""


def run_process(loop: VirtualLoop, body: Coroutine[Any, Any, T]) -> T | None:
    """Run a process until it ends; return its result, or None if it was killed."""
    task = loop.create_task(body)
    loop.main = task
    task.add_done_callback(lambda _: None if loop.dead else loop.stop())
    try:
        loop.run_forever()
        if not loop.dead:
            return task.result()
        return None
    finally:
        loop.dead = True


def unwind(loop: VirtualLoop) -> None:
    """Cancel the remaining tasks of a process and close its loop, so that no coroutine is left unfinished."""
    loop.most_steps = loop.steps + 100_000
    try:
        if loop.main is not None and not loop.main.done():
            # Cancel the main task first: it cancels its children, as usual. A task cancelled before it started would
            # not run its `finally`.
            loop.main.cancel()
            loop.run_until_complete(asyncio.gather(loop.main, return_exceptions=True))
        while tasks := [task for task in asyncio.all_tasks(loop) if not task.done()]:
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
