"""`--log-format json`: one JSON object per line on standard error, each with the same fields."""

import io
import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from traceback import format_exception
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from flows.reporting.words import json_value

if TYPE_CHECKING:
    from flows.reporting.progress import Progress

# The fields of a log record that connectors and flows set with `extra`.
_FACTS = ("account", "username", "partition", "code", "http_status", "correlation_id", "retry_in", "resume_after")

# The prefixes of lines for users (flows/cli/output/terminal.py).
_LEVELS = {"✖ ": logging.ERROR, "! ": logging.WARNING, "✔ ": logging.INFO}


class JsonLines(io.TextIOBase):
    """A replacement of standard error that writes all text as JSON objects, one per line.

    `now` is the wall clock (UTC). `progress` is that of this process's run, set when it begins.
    """

    def __init__(self, stream: TextIO, now: Callable[[], datetime]) -> None:
        self._stream, self._now, self._begun = stream, now, ""
        self.progress: Progress | None = None

    def write(self, text: str) -> int:
        """Write all complete lines. A line's prefix determines its level."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            mark = next((mark for mark in _LEVELS if line.startswith(mark)), "")
            self.say(line.removeprefix(mark).strip(), _LEVELS.get(mark, logging.INFO))
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

    def say(self, message: str, level: int = logging.INFO, facts: Mapping[str, object] | None = None) -> None:
        """Write one object."""
        fields: dict[str, object] = {
            "time": self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": logging.getLevelName(level).lower(),
            "message": message,
            "run": self.progress and self.progress.run_id,
        }
        known = facts or {}
        fields |= {name: known.get(name) for name in _FACTS}
        if isinstance(error := known.get("error"), BaseException):
            fields["traceback"] = "".join(format_exception(error))
        self._stream.write(f"{json.dumps(fields, default=json_value)}\n")
        self._stream.flush()


class Records(logging.Handler):
    """Calls a function with each log record."""

    def __init__(self, tell: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        # It is called by `emit`, with the handler's lock.
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Call the function."""
        self._tell(record)


def log_to(tell: Callable[[logging.LogRecord], None]) -> None:
    """Tell everything that happens in our packages: Prefect and its client would log each request."""
    for package in ("connectors", "flows"):
        ours = logging.getLogger(package)
        ours.addHandler(Records(tell))
        ours.setLevel(logging.INFO)


def begin_json_log() -> None:
    """Convert standard error, log records and the traceback of an uncaught exception to JSON lines."""
    lines = JsonLines(sys.stderr, lambda: datetime.now(UTC))

    def uncaught(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        lines.say(f"Bug in gramhouse: {kind.__name__}: {error}", logging.ERROR, {"error": error})

    def tell(record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        lines.say(record.getMessage(), record.levelno, {**vars(record), "error": error})

    sys.stderr, sys.excepthook = lines, uncaught
    log_to(tell)


def in_force() -> JsonLines | None:
    """Return the JSON standard error, if it is active."""
    return sys.stderr if isinstance(sys.stderr, JsonLines) else None
