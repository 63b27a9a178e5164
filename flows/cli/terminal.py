"""Terminal output: results on standard output, everything else on standard error.

Every line on standard error is a log record: of the command's `notices`, of our packages, or of a library. It is for a
person, or with `--log-format json` a JSON object with the same fields.
"""

import json
import logging
import os
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from flows.config.errors import ExitCode
from flows.reporting.progress import Progress, notices
from flows.reporting.words import json_value, moment
from models.runs import JOINER, Finding, Severity

# Lines that go into a pipe or a file are neither wrapped nor truncated.
UNLIMITED = 10**6

out = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else UNLIMITED)
err = Console(stderr=True, highlight=False, emoji=False, width=None if sys.stderr.isatty() else UNLIMITED)

DONE, WARN, FAIL, QUIET = "[green]✔[/]", "[yellow]![/]", "[red]✖[/]", "[dim]·[/]"

_MARKS = {Severity.ACTION: FAIL, Severity.WARNING: WARN, Severity.INFORMATION: QUIET}

# The states of commands that ended without a report.
_STATES: dict[int, str] = {
    ExitCode.FAILED: "failed",
    ExitCode.WRONG_USAGE: "invalid_parameters",
    ExitCode.BUSY: "locked",
}

# Control and format characters, surrogates, line and paragraph separators.
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def show(*lines: RenderableType, soft_wrap: bool = False) -> None:
    """Print to standard output: texts with markup, and tables, whose lines Rich fills up with spaces."""
    # Captured, because Rich would end the process if the reader of a pipe, such as `head`, closed it.
    with out.capture() as captured:
        for line in lines:
            out.print(line, soft_wrap=soft_wrap)
    text = captured.get()
    # Not by a regular expression: one takes the square of the length of a row of spaces.
    sys.stdout.write(text if out.is_terminal else "\n".join(line.rstrip(" ") for line in text.split("\n")))
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answers: a document for programs, and for persons lines instead, which are text with markup.

    `code` is the exit code; one without a document has neither.
    """

    document: object
    lines: Iterable[RenderableType] = ()
    code: int = ExitCode.COMPLETE

    def show(self, *, as_json: bool) -> int:
        """Print the answer; return the exit code, which is not 0 if the answer cannot be written."""
        try:
            if as_json and self.document is not None:
                text = json.dumps(self.document, default=json_value, ensure_ascii=False)
                sys.stdout.write(f"{escape_json(text)}\n")
            elif not as_json:
                show(*self.lines)
            sys.stdout.flush()
        except OSError as error:
            # What is buffered goes nowhere: otherwise Python would fail to flush it, and exit with its own code.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # The reader of a pipe may have closed it, such as `head`.
            if not isinstance(error, BrokenPipeError):
                notices.error(f"Standard output: {error.strerror}.")
                return self.code or ExitCode.FAILED
        return self.code


def failure(code: int, message: str) -> Answer:
    """Return the answer of a command that ended without a report; the text after `Fix:` is the hint."""
    what, _, hint = message.partition(" Fix: ")
    state = {"state": _STATES.get(code, "stopped"), "exit_code": int(code)}
    return Answer({**state, "message": what, "hint": hint or None} if message else None, code=code)


def _is_harmless(char: str) -> bool:
    return char == JOINER or unicodedata.category(char) not in _STEERING


def without_control_characters(text: object, *, newlines: bool = False) -> str:
    """Return text from outside without characters that could control a terminal."""
    keep = "\t\n" if newlines else ""
    return "".join(char if char in keep or _is_harmless(char) else " " for char in str(text))


def clean(text: object, *, newlines: bool = False) -> str:
    """Return text from outside without terminal control characters, and with Rich markup escaped."""
    return escape(without_control_characters(text, newlines=newlines))


def escape_json(text: str) -> str:
    """Return JSON text for standard output: on a terminal, characters that could control it are escaped."""
    if not sys.stdout.isatty():
        return text
    return "".join(char if _is_harmless(char) else json.dumps(char)[1:-1] for char in text)


def row(*heads: str, text: object) -> Table:
    """Return texts with markup and one from outside side by side; that is wrapped, and never goes below the others."""
    grid = Table.grid(padding=(0, 1))
    for _ in heads:
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(*heads, clean(text))
    return grid


def finding_line(finding: Finding) -> Table:
    """Return a finding behind its mark: the cause, then the fix."""
    return row(_MARKS[finding.severity], text=finding.sentence())


# The fields of a log record that connectors and flows set with `extra`, and `run`.
_FACTS = (
    *("run", "account", "username", "partition", "code", "http_status", "correlation_id"),
    *("retry_in", "resume_after"),
)

LOGGERS = ("root", notices.name, "connectors", "flows")


class _Lines(logging.Handler):
    """Prints records for a person: an error, which ends a command, and outside of a terminal others with their time."""

    def emit(self, record: logging.LogRecord) -> None:
        is_error = record.levelno >= logging.ERROR
        mark = f"{FAIL} " if is_error else f"{WARN} " if record.levelno == logging.WARNING else ""
        at = datetime.fromtimestamp(record.created, UTC)
        time = "" if err.is_terminal or is_error else f"{moment(at, seconds=True)} UTC "
        # A terminal wraps the line, so that a log has it complete.
        err.print(f"{mark}{time}{clean(record.getMessage(), newlines=is_error)}", soft_wrap=True)
        if record.exc_info:
            err.print(clean(logging.Formatter().formatException(record.exc_info), newlines=True), soft_wrap=True)


class _Objects(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a JSON object."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields: dict[str, object] = {"time": at, "level": record.levelname.lower(), "message": record.getMessage()}
        fields |= {name: getattr(record, name, None) for name in _FACTS}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=json_value)


def begin_log(*, as_json: bool) -> None:
    """Write all log records to standard error from now on."""
    handler: logging.Handler = _Lines()
    if as_json:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Objects())
        logging.captureWarnings(capture=True)
        log_requests()
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        # Prefect replaces the handlers of the root, which are for libraries.
        logger.propagate = False
    notices.setLevel(logging.INFO)


def log_requests() -> None:
    """Log what our packages do, such as every retry and wait. Prefect and its client would log each request."""
    for package in ("connectors", "flows"):
        logging.getLogger(package).setLevel(logging.INFO)


def name_run(progress: Progress) -> None:
    """Add the id of a run in this process to all records from now on."""

    def add(record: logging.LogRecord) -> bool:
        record.run = progress.run_id
        return True

    for handler in notices.handlers:
        handler.addFilter(add)
