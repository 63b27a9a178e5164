"""A query's result as one JSON object, which is completed however the query ends."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread, Timer

import msgspec

from connectors.warehouse.snapshot.reader import Stream
from flows.cli.output.terminal import escaped, failure
from flows.reporting.exit_code import SIGNALLED, ExitCode

# Seconds after a signal in which the output's reader must read the rest.
_GRACE = 1.0


class Document:
    """The object: `columns`, `rows` and `exit_code`, and if that is not 0, also `state`, `message` and `hint`.

    Rows are written as they arrive, so an error follows the rows before it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._separator: str | None = None
        self._has_ended = False

    def write(self, stream: Stream) -> None:
        """Write the rows and the end. Raises QueryError, after which `end` must be called."""
        self._put(f'{{"columns": {_text(stream.columns)}, "rows": [', separator="")
        for batch in stream.batches:
            records = [_text(dict(zip(stream.columns, row, strict=True))) for row in batch]
            self._put(f"{self._separator}{', '.join(records)}", separator=", ")
        self.end({"exit_code": int(ExitCode.COMPLETE)})

    def end(self, members: dict[str, object]) -> None:
        """Write the last members and a newline; does nothing after the first time."""
        with self._lock:
            if not self._has_ended:
                self._has_ended = True
                sys.stdout.write(f"{'{' if self._separator is None else '], '}{_text(members)[1:]}\n")
                sys.stdout.flush()

    def _put(self, text: str, separator: str) -> None:
        with self._lock:
            sys.stdout.write(text)
            self._separator = separator

    @contextmanager
    def ended_by_signals(self) -> Iterator[None]:
        """Make Ctrl-C and SIGTERM complete the object and end the process immediately.

        This is done in a thread, because Python's signal handlers would wait until DuckDB returns, which may take
        minutes.
        """
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        handlers = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGINT, signal.SIGTERM)}
        before = signal.set_wakeup_fd(writer)
        watcher = Thread(target=self._watch, args=(reader,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(writer)
            watcher.join()
            os.close(reader)

    def _watch(self, reader: int) -> None:
        if received := os.read(reader, 1):
            code = SIGNALLED + received[0]
            last_resort = Timer(_GRACE, os._exit, [code])
            last_resort.start()
            try:
                name = signal.Signals(received[0]).name
                self.end(failure(code, f"Stopped by {name}. Fix: run the same command again."))
            finally:
                os._exit(code)


def _text(value: object) -> str:
    return escaped(msgspec.json.encode(value).decode())
