"""The result of a query: a table on the terminal, CSV, or one JSON object."""

import csv
import re
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table

from connectors.warehouse.queries.reader import Stream
from flows.cli.output.terminal import clean, escaped, failure, out, without_control_characters, write_utf8
from flows.cli.signals import Stopped
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count

_SHOWN = 200

# Up to this many rows that are too wide for the terminal are shown with one line for each field.
_FEW = 10

# The width of what separates two columns.
_GAP = 3

_NUMERIC = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|FLOAT|DOUBLE|DECIMAL\(.*\)")


def print_table(stream: Stream) -> None:
    """Print the first 200 rows as a table. A value is never cut: columns that do not fit are left out."""
    shown: list[tuple[Any, ...]] = []
    rows = 0
    for batch in stream.batches:
        shown += batch[: _SHOWN - len(shown)]
        rows += len(batch)
    fitting = _fitting(stream.columns, shown, out.width)
    left = stream.columns[fitting:]
    if left and len(shown) <= _FEW:
        _print_fields(stream.columns, shown)
    else:
        _print_columns(stream, shown, fitting)
        if left:
            names = ", ".join(left)
            out.print(f"[dim]({count(len(left), 'more column')}: {clean(names)})[/]", soft_wrap=True)
    if rows > len(shown):
        out.print(f"[dim]first {len(shown)} of {count(rows, 'row')}; `--format csv` prints all[/]")


def _fitting(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> int:
    """Return how many of the first columns fit into the width, at least one."""
    used = -_GAP
    for number, name in enumerate(columns):
        cells = ("NULL" if row[number] is None else without_control_characters(row[number]) for row in rows)
        used += _GAP + max(cell_len(text) for text in (without_control_characters(name), *cells))
        if used > width:
            return max(number, 1)
    return len(columns)


def _print_columns(stream: Stream, rows: Sequence[Sequence[Any]], fitting: int) -> None:
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for name, kind in zip(stream.columns[:fitting], stream.kinds[:fitting], strict=True):
        table.add_column(clean(name), justify="right" if _NUMERIC.fullmatch(kind) else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row[:fitting]))
    out.print(table)


def _print_fields(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for number, row in enumerate(rows):
        if number:
            out.print()
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, style="bold")
        table.add_column(overflow="fold")
        for name, value in zip(columns, row, strict=True):
            table.add_row(clean(name), _cell(value))
        out.print(table)


def _cell(value: object) -> str:
    return "[dim]NULL[/]" if value is None else clean(value)


class _Terminal:
    """Standard output for raw rows on a terminal, without control characters."""

    def write(self, text: str) -> int:
        return sys.stdout.write(without_control_characters(text, newlines=True))


def print_csv(stream: Stream) -> None:
    """Print all rows as CSV."""
    write_utf8()
    writer = csv.writer(_Terminal() if sys.stdout.isatty() else sys.stdout)
    writer.writerow(stream.columns)
    for batch in stream.batches:
        writer.writerows(batch)


class Document:
    """One JSON object, completed however the query ends: `columns`, `rows` and `exit_code`.

    If that is not 0, also `state`, `message` and `hint`. Rows are written as they arrive, so an error follows the rows
    before it. Call it within `ended_at_once`: nothing is raised between text that was written and the note that it was.
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
            if not self._has_ended:
                sys.stdout.write(text)
                self._separator = separator

    def stop(self, stopped: Stopped) -> None:
        """Write the end of a query that a signal ended."""
        self.end(failure(stopped.code, str(stopped)))


def _text(value: object) -> str:
    return escaped(msgspec.json.encode(value).decode())
