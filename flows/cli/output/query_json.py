"""A query's result as one JSON object, which is completed however the query ends."""

import sys
from threading import Lock

import msgspec

from connectors.warehouse.snapshot.reader import Stream
from flows.cli.output.terminal import escaped, failure
from flows.cli.signals import Stopped
from flows.reporting.exit_code import ExitCode


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

    def stop(self, stopped: Stopped) -> None:
        """Write the end of a query that a signal ended."""
        self.end(failure(stopped.code, str(stopped)))


def _text(value: object) -> str:
    return escaped(msgspec.json.encode(value).decode())
