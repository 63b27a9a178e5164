"""Terminal output: results on standard output, everything else on standard error."""

import codecs
import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from flows.cli.output import json_log
from flows.cli.output.streams import drop_output
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import json_value, moment, span

# Lines that go into a pipe or a file are neither wrapped nor truncated.
_UNLIMITED = 10**6


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Rich would exit with its own code instead of that of the command.
        raise  # noqa: PLE0704 - it is called while the error is handled

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - the signature is Rich's
        # `self.out` below sets `crop` and calls this method.
        if self.is_terminal or "crop" in options:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.out("\n".join(line.rstrip(" ") for line in captured.get().split("\n")), end="")


out = _Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _UNLIMITED)
err = _Console(stderr=True, highlight=False, emoji=False, width=None if sys.stderr.isatty() else _UNLIMITED)

# The time at the beginning of a line in a log.
DATED = "%Y-%m-%d %H:%M:%S UTC"

# The columns of lists that are wrapped or truncated on a narrow terminal; --json prints all of them.
_NARROWED = {"account id", "description", "run", "type"}

DONE = "[green]✔[/]"
WARN = "[yellow]![/]"
FAIL = "[red]✖[/]"


def dated() -> str:
    """Return the time for the beginning of a line: a log file needs it, a terminal and JSON lines do not."""
    return "" if err.is_terminal or json_log.in_force() else f"{datetime.now(UTC):{DATED}} "


def warn(line: str) -> None:
    """Print a warning on standard error."""
    err.print(f"{WARN} {dated()}{clean(line)}", soft_wrap=True)


_STATES: dict[int, str] = {
    ExitCode.FAILED: "failed",
    ExitCode.WRONG_USAGE: "invalid_parameters",
    ExitCode.BUSY: "locked",
}

_SHOWN = {"\t", "\n"}


# Control and format characters (except for the joiner of emoji), surrogates, line and paragraph separators.
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINER = "\u200d"


def _harmless(char: str) -> bool:
    return char == _JOINER or unicodedata.category(char) not in _STEERING


def without_control_characters(text: object, *, newlines: bool = False) -> str:
    """Return text from outside without characters that could control a terminal."""
    keep = _SHOWN if newlines else set()
    return "".join(char if char in keep or _harmless(char) else " " for char in str(text))


def clean(text: object, *, newlines: bool = False) -> str:
    """Return text from outside without terminal control characters, and with Rich markup escaped."""
    return escape(without_control_characters(text, newlines=newlines))


def escaped(text: str) -> str:
    """Return JSON text for standard output.

    Escaped are characters that could control a terminal, and on an output that is not UTF-8 all but ASCII.
    """
    is_utf8, is_terminal = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8", sys.stdout.isatty()
    if is_utf8 and not is_terminal:
        return text
    return "".join(char if char.isascii() or (is_utf8 and _harmless(char)) else json.dumps(char)[1:-1] for char in text)


def print_json(document: object) -> None:
    """Print a JSON document for programs."""
    out.out(escaped(json.dumps(document, default=json_value, ensure_ascii=False)))


def write_utf8() -> None:
    """Write standard output in UTF-8, whatever the locale: formats that cannot escape a character must not lose one."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")


def failure(exit_code: int, message: str) -> dict[str, object]:
    """Return the JSON object of a command that ended without a report; the text after `Fix:` is the hint."""
    what, _, hint = message.partition(" Fix: ")
    state = _STATES.get(exit_code, "stopped")
    return {"state": state, "exit_code": int(exit_code), "message": what, "hint": hint or None}


@contextmanager
def reporting() -> Iterator[None]:
    """Write the report of a finished command. If it cannot be written, the exit code is unchanged."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        err.print(f"{WARN} Cannot write the report to standard output: {error.strerror or error}.")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, not wrapped, because an id that is split over two lines cannot be copied."""
    for line in lines:
        out.print(line, soft_wrap=True)


def print_result(document: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print what a finished command did, as a JSON document or as lines."""
    with reporting():
        if as_json:
            print_json(document)
        else:
            print_lines(lines)


def print_rows(
    rows: Sequence[Mapping[str, object]],
    columns: Mapping[str, str],
    styles: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print a list; `columns` are the titles of the columns and the names of their values, `styles` those of values.

    Numbers and durations are on the right, times are in UTC, and None is empty.
    """
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for title, name in columns.items():
        is_number = any(isinstance(row[name], int | timedelta) for row in rows)
        # A nested type may be wider than the terminal.
        overflow: Literal["fold", "ellipsis"] = "fold" if title == "type" else "ellipsis"
        table.add_column(
            title, justify="right" if is_number else "left", no_wrap=title not in _NARROWED, overflow=overflow
        )
    for row in rows:
        values = [row[name] for name in columns.values()]
        table.add_row(*(Text(_cell(value), styles.get(str(value), "")) for value in values))
    out.print(table)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, timedelta):
        return span(value.total_seconds())
    return f"{value:,}" if isinstance(value, int) else without_control_characters("" if value is None else value)


def agreed(question: str) -> bool:
    """Ask a question on the terminal; return whether the answer is yes. Without standard input it is no."""
    err.print(f"{clean(question)} {escape('[y/N]')} ", end="", soft_wrap=True)
    try:
        answer = input()
    except EOFError:
        # Standard input is closed, as under cron.
        answer = ""
        err.print()
    return answer.strip().lower() in {"y", "yes"}
