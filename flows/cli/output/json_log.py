"""`--log-format json`: standard error as one JSON object per line, with the same fields in each."""

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

# Of a record: what it is about, as connectors and flows give it in `extra`.
_FACTS = ("account", "username", "partition", "code", "http_status", "correlation_id", "retry_in", "resume_after")

# What a line for a person begins with (flows/cli/output/terminal.py).
_LEVELS = {"✖ ": "error", "! ": "warning", "✔ ": "info"}


class JsonLines(io.TextIOBase):
    """A standard error that writes whatever it is given as JSON objects, one a line.

    `now` is the wall clock (UTC). `counters` are those of the run that this process makes, once it makes one.
    """

    def __init__(self, stream: TextIO, now: Callable[[], datetime]) -> None:
        self._stream = stream
        self._now = now
        self._begun = ""
        self.counters: Counters | None = None

    def write(self, text: str) -> int:
        """Write each line that is whole by now; the mark before it is its level."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(str.strip, lines):
            mark = next((mark for mark in _LEVELS if line.startswith(mark)), "")
            self.say(line.removeprefix(mark).strip(), level=_LEVELS.get(mark, "info"))
        return len(text)

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def flush(self) -> None:
        """Pass on what is written."""
        self._stream.flush()

    def fileno(self) -> int:
        """Return the descriptor behind it, which child processes write to."""
        return self._stream.fileno()

    def say(self, message: str, *, level: str = "info", facts: Mapping[str, object] | None = None) -> None:
        """Write one object."""
        run = None if self.counters is None else self.counters.run_id
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        about = {**dict.fromkeys(_FACTS), **(facts or {})}
        line = json.dumps({"time": time, "level": level, "message": message, "run": run, **about}, default=str)
        # At once: threads write, too.
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
    """Make standard error, the log and a traceback at the end JSON lines."""
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
    """Return standard error where it takes JSON."""
    return sys.stderr if isinstance(sys.stderr, JsonLines) else None
