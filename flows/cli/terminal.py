"""Terminal output: results on standard output, everything else on standard error."""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from flows.config.errors import ExitCode
from flows.reporting.progress import notices
from flows.reporting.words import json_value
from models.runs import Finding, Severity

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

# Control and format characters (except for the joiner of emoji), surrogates, line and paragraph separators.
_STEERING, _JOINER = {"Cc", "Cf", "Cs", "Zl", "Zp"}, "\u200d"


def show(*lines: RenderableType, soft_wrap: bool = False) -> None:
    """Print to standard output: texts with markup, and tables, whose lines Rich fills up with spaces."""
    # Captured, because Rich would end the process if the reader of a pipe, such as `head`, closed it.
    with out.capture() as captured:
        for line in lines:
            out.print(line, soft_wrap=soft_wrap)
    sys.stdout.write(captured.get() if out.is_terminal else re.sub(" +$", "", captured.get(), flags=re.MULTILINE))
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
    return char == _JOINER or unicodedata.category(char) not in _STEERING


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


def row(*cells: str) -> Table:
    """Return cells side by side; the last one is wrapped between words, and never goes below the others."""
    *heads, text = filter(None, cells)
    grid = Table.grid(padding=(0, 1))
    for _ in heads:
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(*heads, text)
    return grid


def finding_line(finding: Finding) -> Table:
    """Return a finding behind its mark: the cause, then the fix."""
    return row(_MARKS[finding.severity], clean(finding.sentence()))
