"""Signals: the first one ends a command with 128 plus its number, and the second one ends the process at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from flows.cli import SIGNALLED

T = TypeVar("T")

# Seconds after which a signal that the command did not notice is raised again.
_AGAIN = 2.0

_LAST_WORDS = 1.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal ended the command. `advice` says what was saved, if anything was, and what to do."""

    def __init__(self, number: int, advice: str = "Fix: run the same command again.") -> None:
        super().__init__(number)
        self.code = SIGNALLED + number
        self._advice = advice

    def __str__(self) -> str:
        return f"Stopped by {signal.Signals(self.code - SIGNALLED).name}. {self._advice}"


def find_stopped(error: BaseException | None) -> Stopped | None:
    """Return the signal that caused an error, if one did: DuckDB reports a query that it interrupted as an error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return Stopped(signal.SIGINT) if error is not None and not isinstance(error, Stopped) else error


def raise_at_signals() -> None:
    """Make the first signal raise Stopped in the main thread."""
    report = sys.__unraisablehook__
    sys.unraisablehook = lambda found: None if isinstance(found.exc_value, Stopped) else report(found)
    _listen(_raise)


def _raise(number: int) -> None:
    # Python discards what is raised in a callback, such as a destructor: then it is raised again.
    signal.signal(signal.SIGALRM, lambda *_: _raise(number))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    raise Stopped(number)


def end_soon(stopped: Stopped) -> None:
    """Give a command that a signal ended a moment for its last words: perhaps nobody reads them."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(stopped.code))
    signal.setitimer(signal.ITIMER_REAL, _LAST_WORDS)


@contextmanager
def call_at_signal(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on a thread at the first signal in the block: the main thread may be in a library until then.

    The handler of the signal runs when it has returned.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)

    def wait() -> None:
        if os.read(reading, 1):
            act()

    waiting = threading.Thread(target=wait, name="signals", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        waiting.join()
        os.close(reading)


def _listen(act: Callable[[int], None]) -> None:
    """Call `act` at the first signal. One that is ignored stays so: with nohup, and in a shell's background command."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def first(number: int, _: object) -> None:
        for each in heard:
            signal.signal(each, lambda number, _: os._exit(SIGNALLED + number))
        act(number)

    for number in heard:
        signal.signal(number, first)


def run_until_signalled(work: Callable[[Callable[[], None]], Coroutine[Any, Any, T]], advice: Callable[[], str]) -> T:
    """Run a coroutine, which a signal cancels, so that it can close its resources. Raises Stopped with the advice.

    `work` is called with a function that installs the signal handlers again, for code that replaces them.
    """
    import asyncio

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        received: list[int] = []

        def cancel(number: int) -> None:
            received.append(number)
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)

        def listen() -> None:
            _listen(cancel)

        listen()
        try:
            return await work(listen)
        except asyncio.CancelledError:
            if not received:
                raise
            raise Stopped(received[0], advice()) from None
        finally:
            raise_at_signals()

    return asyncio.run(main())


def run_maintenance(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. A signal raises Stopped at once, whatever its threads do: what it leaves is what a crash leaves.

    DuckDB may be busy for minutes, and waiting for it would gain nothing.
    """
    import asyncio

    runner = asyncio.Runner()
    try:
        result = runner.run(work)
    except Exception:
        runner.close()
        raise
    runner.close()
    return result
