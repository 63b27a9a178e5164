"""Signals: the first one cancels a run, which is then recorded as interrupted. Other commands it ends at once.

A crash is safe everywhere, so all else has the system's default action.
"""

import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Shells report a process that was ended by a signal as this plus the signal's number.
_SIGNALLED = 128

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal cancelled a run. The message says what was saved, and how to go on; `code` is the exit code."""

    def __init__(self, number: int, advice: str) -> None:
        super().__init__(f"Stopped by {signal.Signals(number).name}. {advice}")
        self.code = _SIGNALLED + number


def run_until_signalled(work: Callable[[Callable[[], None]], Coroutine[Any, Any, T]], advice: Callable[[], str]) -> T:
    """Run a coroutine. The first signal cancels it and raises Stopped with the advice; the second ends the process.

    `work` is called with a function that installs the handlers again, for code that replaces them. A signal that is
    ignored stays so: with nohup, and in a shell's background command.
    """
    import asyncio

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    received: list[int] = []

    def handle(handler: Any) -> None:  # noqa: ANN401 - the signature is signal's
        for number in heard:
            signal.signal(number, handler)

    async def main() -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()

        def cancel(number: int, _: object) -> None:
            received.append(number)
            handle(signal.SIG_DFL)
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)

        handle(cancel)
        return await work(lambda: handle(cancel))

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not received:
            raise
        raise Stopped(received[0], advice()) from None
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
