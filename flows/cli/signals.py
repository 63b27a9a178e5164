"""Run a coroutine until it ends or a signal cancels it."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from flows.cli.output.terminal import err
from flows.reporting.exit_code import SIGNALLED

T = TypeVar("T")

# Installs the signal handlers again, for a coroutine in which other code has replaced them.
listen: ContextVar[Callable[[], None]] = ContextVar("listen")


def run_until_signalled(work: Coroutine[Any, Any, T], stopped: Callable[[], str] = lambda: "Stopped.") -> T:
    """Run a coroutine. SIGTERM and SIGINT cancel it, so that it can close its resources.

    After a signal, the text of `stopped` is printed, and the process exits with 128 plus the signal's number.
    """
    received: list[int] = []

    async def main() -> T:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            received.append(number)
            if task is not None:
                task.cancel()

        def take_signals() -> None:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop, number)

        take_signals()
        listen.set(take_signals)
        return await work

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if not received:
            raise
        err.print(stopped())
        sys.exit(SIGNALLED + received[0])
