"""Signals: SIGINT and SIGTERM end every command with 128 plus the signal's number."""

import os
import select
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread, Timer
from typing import Any, TypeVar

from flows.cli import SIGNALLED

T = TypeVar("T")

# Seconds in which the main thread must notice a signal, which DuckDB checks for between its tasks, and must then end:
# Python may have discarded the exception that ends the command.
_NOTICE, _END = 3.0, 4.0

# Seconds in which maintenance must end, and in which the last output must be written.
_GRACE = 1.0


class Stopped(SystemExit):
    """A signal ended the command. `advice` says what was saved, if anything was, and what to do."""

    def __init__(self, number: int, advice: str = "Fix: run the same command again.") -> None:
        super().__init__(SIGNALLED + number)
        self.code: int = SIGNALLED + number
        self._advice = advice

    def __str__(self) -> str:
        return f"Stopped by {signal.Signals(self.code - SIGNALLED).name}. {self._advice}"


@dataclass(frozen=True, slots=True)
class _Handler:
    """What the main thread does at the first signal, and the seconds within which it must then notice it and end."""

    act: Callable[[int], None]
    notice: float
    end: float | None
    received: list[int] = field(default_factory=list)

    def __call__(self, number: int, _: object) -> None:
        self.received.append(number)
        if len(self.received) == 1:
            self.act(number)

    @contextmanager
    def installed(self) -> Iterator[list[int]]:
        """Install the handler in the block; yield the list of the signals received."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.take()
        try:
            yield self.received
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def take(self) -> None:
        """Install the handler, except for signals that are ignored: a shell's background command ignores SIGINT."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)


def _watch(reader: int, last_words: Callable[[Stopped], None]) -> None:
    """End the process at a signal that the main thread does not handle in time, and at the second one."""
    while byte := os.read(reader, 1):
        handler = signal.getsignal(byte[0])
        if not isinstance(handler, _Handler):
            # The command has its own.
            continue
        for seconds in (handler.notice, handler.end):
            if select.select([reader], [], [], seconds)[0]:
                if not os.read(reader, 1):
                    return
                break
            if not handler.received:
                break
        stopped = Stopped(byte[0])
        Timer(_GRACE, os._exit, [stopped.code]).start()
        try:
            last_words(stopped)
        finally:
            os._exit(stopped.code)


@contextmanager
def _watched(last_words: Callable[[Stopped], None]) -> Iterator[int]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = Thread(target=_watch, args=(reader, last_words), name="signals", daemon=True)
    watcher.start()
    try:
        yield writer
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _raise(number: int) -> None:
    raise Stopped(number)


@contextmanager
def ended_by_signals(last_words: Callable[[Stopped], None]) -> Iterator[list[int]]:
    """Make a signal raise Stopped in the block; yield the list of the signals received.

    If that does not end the command in time, because DuckDB is busy, another thread calls `last_words` and ends the
    process, as it does at a second signal.
    """
    report = sys.unraisablehook
    sys.unraisablehook = lambda found: None if isinstance(found.exc_value, Stopped) else report(found)
    try:
        with _watched(last_words), _Handler(_raise, _NOTICE, _END).installed() as received:
            yield received
    finally:
        sys.unraisablehook = report


@contextmanager
def ended_at_once(last_words: Callable[[Stopped], None]) -> Iterator[None]:
    """Make another thread call `last_words` and end the process at a signal.

    Nothing is raised in the block: for output that must not be cut off in the middle. Raises Stopped before it if a
    signal came already, and a library discarded the exception.
    """
    around = signal.getsignal(signal.SIGTERM)
    if isinstance(around, _Handler) and around.received:
        raise Stopped(around.received[0])
    with _watched(last_words) as watched:

        def tell(number: int) -> None:
            # A signal just before the block has told the watcher of what is around it, which would write its own end.
            os.write(watched, bytes([number]))

        with _Handler(tell, 0, 0).installed():
            yield


def run_until_signalled(
    work: Callable[[Callable[[], None]], Coroutine[Any, Any, T]], advice: Callable[[], str] | None = None
) -> T:
    """Run a coroutine, which a signal cancels, so that it can close its resources.

    `work` is called with a function that installs the signal handlers again, for code that replaces them. After a
    signal Stopped is raised, with this advice. Without advice, `ended_by_signals` ends the process if closing takes
    long: DuckDB may be busy for minutes, and nothing would be gained.
    """
    import asyncio

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def cancel(_: int) -> None:
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)

        handler = _Handler(cancel, _GRACE, None if advice else _GRACE)
        with handler.installed() as received:
            try:
                return await work(handler.take)
            except asyncio.CancelledError:
                if not received:
                    raise
                raise (Stopped(received[0], advice()) if advice else Stopped(received[0])) from None

    return asyncio.run(main())
