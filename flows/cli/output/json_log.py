"""`--log-format json`: one JSON object per line on standard error, each with the same fields."""

import io
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from flows.reporting.progress import Progress

# The fields of a log record that connectors and flows set with `extra`.
_FACTS = ("account", "username", "partition", "code", "http_status", "correlation_id", "retry_in", "resume_after")

# The prefixes of lines for users (flows/cli/output/terminal.py).
_LEVELS = {"✖ ": logging.ERROR, "! ": logging.WARNING, "✔ ": logging.INFO}


class JsonLines(io.TextIOBase):
    """A replacement of standard error that writes all text as JSON objects, one per line.

    `now` is the wall clock (UTC). `progress` is that of this process's run, set when it begins. `handler` writes log
    records.
    """

    def __init__(self, stream: TextIO, now: Callable[[], datetime]) -> None:
        # Only here: it takes 20 ms, and most commands only ask whether JSON is in force.
        from pythonjsonlogger.json import JsonFormatter

        self._stream = stream
        self._now = now
        self._begun = ""
        self.progress: Progress | None = None
        self.handler = logging.StreamHandler(stream)
        fields = ("time", "level", "message", "run", *_FACTS)
        self.handler.setFormatter(JsonFormatter(fields, rename_fields={"exc_info": "traceback"}))
        self.handler.addFilter(self._complete)

    def _complete(self, record: logging.LogRecord) -> bool:
        """Set the fields that are not a log record's own."""
        record.time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record.level = record.levelname.lower()
        record.run = self.progress and self.progress.run_id
        return True

    def write(self, text: str) -> int:
        """Write all complete lines. A line's prefix determines its level."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            mark = next((mark for mark in _LEVELS if line.startswith(mark)), "")
            self.say(line.removeprefix(mark).strip(), level=_LEVELS.get(mark, logging.INFO))
        return len(text)

    def writable(self) -> bool:
        """Return True."""
        return True

    def flush(self) -> None:
        """Write a line that has begun, such as a question, and flush the underlying stream."""
        if self._begun:
            self.write("\n")
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor of the underlying stream, which child processes write to."""
        return self._stream.fileno()

    def say(self, message: str, *, level: int = logging.INFO, facts: Mapping[str, object] | None = None) -> None:
        """Write one object."""
        given = {"msg": message, "levelno": level, "levelname": logging.getLevelName(level), **(facts or {})}
        self.handler.handle(logging.makeLogRecord(given))


def log_to(handler: logging.Handler) -> None:
    """Log everything that happens in our packages: Prefect and its client would log each request."""
    for package in ("connectors", "flows"):
        ours = logging.getLogger(package)
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


def begin() -> None:
    """Convert standard error, log records and the traceback of an uncaught exception to JSON lines."""
    lines = JsonLines(sys.stderr, lambda: datetime.now(UTC))

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        facts = {"exc_info": (kind, error, trace)}
        lines.say(f"Bug in gramhouse: {kind.__name__}: {error}", level=logging.ERROR, facts=facts)

    sys.stderr = lines
    sys.excepthook = uncaught
    log_to(lines.handler)


def in_force() -> JsonLines | None:
    """Return the JSON standard error, if it is active."""
    return sys.stderr if isinstance(sys.stderr, JsonLines) else None
