"""The result of a query in the formats of `gramhouse query`. Each writer prints it and returns the number of rows."""

import csv
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD, SQUARE
from rich.table import Table
from rich.text import Text

from connectors.warehouse.queries.reader import Stream
from flows.cli.output.table import Column, print_columns
from flows.cli.output.terminal import (
    UNLIMITED,
    clean,
    escape_json,
    out,
    print_row,
    without_control_characters,
    write_utf8,
)
from flows.reporting.exit_code import ExitCode

# The rows that a table or box has; the other formats have all.
SHOWN = 200

_NUMERIC = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|FLOAT|DOUBLE|DECIMAL\(.*\)")

# Text with a space, JSON and lists may be cut; an id, a name or an address may not.
_PROSE = re.compile(r"VARCHAR|JSON|.*(\[\d*\]|\))", re.DOTALL)
_CUT = re.compile(r"\s|\A[\[{]")


@contextmanager
def into_file(path: Path | None) -> Iterator[None]:
    """Write standard output in the block to a file, if there is one, which replaces an earlier one when it is whole."""
    if path is None:
        yield
        return
    draft = path.with_name(f".{path.name}.next")
    try:
        with draft.open("w", encoding="utf-8", newline="") as file, redirect_stdout(file):
            out.width = UNLIMITED
            yield
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _first(stream: Stream) -> tuple[list[tuple[Any, ...]], int]:
    """Return the first rows of a stream, and the number of all."""
    shown: list[tuple[Any, ...]] = []
    rows = 0
    for batch in stream.batches:
        shown += batch[: SHOWN - len(shown)]
        rows += len(batch)
    return shown, rows


def _cell(value: object) -> Text:
    return Text("NULL", "dim") if value is None else Text(without_control_characters(value))


def print_table(stream: Stream) -> int:
    """Print the first rows as a table that fits the terminal."""
    rows, number = _first(stream)
    columns = [
        Column(
            without_control_characters(name),
            is_prose=bool(_PROSE.fullmatch(kind)) and any(_CUT.search(row[at] or "") for row in rows),
            is_number=_NUMERIC.fullmatch(kind) is not None,
        )
        for at, (name, kind) in enumerate(zip(stream.columns, stream.kinds, strict=True))
    ]
    print_columns(columns, [[_cell(value) for value in row] for row in rows], box=SIMPLE_HEAD, others="`--format line`")
    return number


def _print_box(stream: Stream) -> int:
    """Print the first rows with all columns, whose values are folded if they do not fit."""
    rows, number = _first(stream)
    table = Table(box=SQUARE, header_style="bold")
    for name in stream.columns:
        table.add_column(clean(name), overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    out.print(table)
    return number


def _print_fields(stream: Stream) -> int:
    """Print a line for each value, and an empty one between rows."""
    names = [clean(name) for name in stream.columns]
    wide = max(map(len, names))
    number = 0
    for number, row in enumerate((row for batch in stream.batches for row in batch), 1):
        if number > 1:
            out.print()
        for name, value in zip(names, row, strict=True):
            print_row(f"[bold]{name:<{wide}}[/]", "[dim]NULL[/]" if value is None else clean(value))
    return number


class _Terminal:
    """Standard output for raw rows on a terminal, without control characters."""

    def write(self, text: str) -> int:
        return sys.stdout.write(without_control_characters(text, newlines=True))


def _print_csv(stream: Stream) -> int:
    write_utf8()
    writer = csv.writer(_Terminal() if sys.stdout.isatty() else sys.stdout)
    writer.writerow(stream.columns)
    rows = 0
    for batch in stream.batches:
        writer.writerows(batch)
        rows += len(batch)
    return rows


def _print_json_lines(stream: Stream) -> int:
    write_utf8()
    rows = 0
    for batch in stream.batches:
        sys.stdout.write("".join(f"{_text(dict(zip(stream.columns, row, strict=True)))}\n" for row in batch))
        rows += len(batch)
    return rows


def _print_markdown(stream: Stream) -> int:
    def line(values: tuple[Any, ...]) -> str:
        cells = ("" if value is None else without_control_characters(value).replace("|", "\\|") for value in values)
        return f"| {' | '.join(cells)} |\n"

    write_utf8()
    sides = ("---:" if _NUMERIC.fullmatch(kind) else "---" for kind in stream.kinds)
    sys.stdout.write(f"{line(stream.columns)}| {' | '.join(sides)} |\n")
    rows = 0
    for batch in stream.batches:
        sys.stdout.write("".join(map(line, batch)))
        rows += len(batch)
    return rows


WRITERS: Mapping[str, Callable[[Stream], int]] = {
    "table": print_table,
    "box": _print_box,
    "line": _print_fields,
    "csv": _print_csv,
    "jsonl": _print_json_lines,
    "markdown": _print_markdown,
}
"""The formats; json is a Document."""


class Document:
    """One JSON object, completed however the query ends: `columns`, `rows` and `exit_code`.

    If that is not 0, also `state`, `message` and `hint`. Rows are written as they arrive, so an error follows the rows
    before it.
    """

    def __init__(self) -> None:
        self._separator: str | None = None
        self._has_ended = False

    def write(self, stream: Stream) -> int:
        """Write the rows and the end; return their number. Raises QueryError, after which `end` must be called."""
        self._put(f'{{"columns": {_text(stream.columns)}, "rows": [', separator="")
        rows = 0
        for batch in stream.batches:
            records = [_text(dict(zip(stream.columns, row, strict=True))) for row in batch]
            self._put(f"{self._separator}{', '.join(records)}", separator=", ")
            rows += len(batch)
        self.end({"exit_code": int(ExitCode.COMPLETE)})
        return rows

    def end(self, members: dict[str, object]) -> None:
        """Write the last members and a newline; does nothing after the first time."""
        if not self._has_ended:
            self._has_ended = True
            sys.stdout.write(f"{'{' if self._separator is None else '], '}{_text(members)[1:]}\n")
            sys.stdout.flush()

    def _put(self, text: str, separator: str) -> None:
        sys.stdout.write(text)
        self._separator = separator


def _text(value: object) -> str:
    return escape_json(msgspec.json.encode(value).decode())
