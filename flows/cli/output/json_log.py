"""`--log-format json`: one JSON object per line on standard error, each with the same fields."""

import io
import json
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from flows.engine.run_context import Counters

# The fields of a log record that connectors and flows set with `extra`.
_FACTS = ("account", "username", "partition", "code", "http_status", "correlation_id", "retry_in", "resume_after")

# The prefixes of lines for users (flows/cli/output/terminal.py).
_LEVELS = {"✖ ": "error", "! ": "warning", "✔ ": "info"}


class JsonLines(io.TextIOBase):
    """A replacement of standard error that writes all text as JSON objects, one per line.

    `now` is the wall clock (UTC). `counters` are those of this process's run, set when it begins.
    """

    def __init__(self, stream: TextIO, now: Callable[[], datetime]) -> None:
        self._stream = stream
        self._now = now
        self._begun = ""
        self.counters: Counters | None = None

    def write(self, text: str) -> int:
        """Write all complete lines. A line's prefix determines its level."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            mark = next((mark for mark in _LEVELS if line.startswith(mark)), "")
            self.say(line.removeprefix(mark).strip(), level=_LEVELS.get(mark, "info"))
        return len(text)

    def writable(self) -> bool:
        """Return True."""
        return True

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor of the underlying stream, which child processes write to."""
        return self._stream.fileno()

    def say(self, message: str, *, level: str = "info", facts: Mapping[str, object] | None = None) -> None:
        """Write one object."""
        run = None if self.counters is None else self.counters.run_id
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        about = {**dict.fromkeys(_FACTS), **(facts or {})}
        line = json.dumps({"time": time, "level": level, "message": message, "run": run, **about}, default=str)
        # In a single call, because other threads write as well.
        self._stream.write(line + "\n")


class _Handler(logging.Handler):
    def __init__(self, lines: JsonLines) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        facts = {name: getattr(record, name) for name in _FACTS if hasattr(record, name)}
        if record.exc_info:
            facts["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._lines.say(record.getMessage(), level=record.levelname.lower(), facts=facts)


def begin() -> None:
    """Convert standard error, log records and the traceback of an uncaught exception to JSON lines."""
    lines = JsonLines(sys.stderr, lambda: datetime.now(UTC))

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        lines.say(f"Bug in gramhouse: {kind.__name__}: {error}", level="error", facts={"traceback": text})

    sys.stderr = lines
    sys.excepthook = uncaught
    for package in ("connectors", "flows"):
        ours = logging.getLogger(package)
        ours.addHandler(_Handler(lines))
        ours.setLevel(logging.INFO)


def in_force() -> JsonLines | None:
    """Return the JSON standard error, if it is active."""
    return sys.stderr if isinstance(sys.stderr, JsonLines) else None
