"""The result of a query in the formats of `gramhouse query`."""

import csv
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
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

Row = tuple[Any, ...]

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


def _first(stream: Stream) -> list[Row]:
    """Read a stream to its end, and return the first rows."""
    shown: list[Row] = []
    for batch in stream.batches:
        shown += batch[: SHOWN - len(shown)]
    return shown


def _cells(row: Row) -> list[Text]:
    return [Text("NULL", "dim") if value is None else Text(without_control_characters(value)) for value in row]


def print_table(stream: Stream) -> None:
    """Print the first rows as a table that fits the terminal."""
    rows = _first(stream)
    columns = [
        Column(
            without_control_characters(name),
            is_prose=bool(_PROSE.fullmatch(kind)) and any(_CUT.search(row[at] or "") for row in rows),
            is_number=_NUMERIC.fullmatch(kind) is not None,
        )
        for at, (name, kind) in enumerate(zip(stream.columns, stream.kinds, strict=True))
    ]
    print_columns(columns, list(map(_cells, rows)), box=SIMPLE_HEAD, others="`--format line`")


def _print_box(stream: Stream) -> None:
    """Print the first rows with all columns, whose values are folded if they do not fit."""
    table = Table(box=SQUARE, header_style="bold")
    for name in stream.columns:
        table.add_column(clean(name), overflow="fold")
    for row in _first(stream):
        table.add_row(*_cells(row))
    out.print(table)


def _print_fields(stream: Stream) -> None:
    """Print a line for each value, and an empty one between rows."""
    names = [clean(name) for name in stream.columns]
    wide = max(map(len, names))
    for number, row in enumerate(row for batch in stream.batches for row in batch):
        if number:
            out.print()
        for name, value in zip(names, row, strict=True):
            print_row(f"[bold]{name:<{wide}}[/]", "[dim]NULL[/]" if value is None else clean(value))


class _Terminal:
    """Standard output for raw rows on a terminal, without control characters."""

    def write(self, text: str) -> int:
        return sys.stdout.write(without_control_characters(text, newlines=True))


def _print_csv(stream: Stream) -> None:
    write_utf8()
    writer = csv.writer(_Terminal() if sys.stdout.isatty() else sys.stdout)
    writer.writerow(stream.columns)
    for batch in stream.batches:
        writer.writerows(batch)


def _print_markdown(stream: Stream) -> None:
    def line(values: Row) -> str:
        cells = ("" if value is None else without_control_characters(value).replace("|", "\\|") for value in values)
        return f"| {' | '.join(cells)} |\n"

    write_utf8()
    sys.stdout.write(line(stream.columns))
    sys.stdout.write(line(tuple("---:" if _NUMERIC.fullmatch(kind) else "---" for kind in stream.kinds)))
    for batch in stream.batches:
        sys.stdout.writelines(map(line, batch))


def _to_json(value: object) -> str:
    return escape_json(msgspec.json.encode(value).decode())


def _records(stream: Stream) -> Iterator[str]:
    return (_to_json(dict(zip(stream.columns, row, strict=True))) for batch in stream.batches for row in batch)


def _print_json_lines(stream: Stream) -> None:
    write_utf8()
    sys.stdout.writelines(f"{record}\n" for record in _records(stream))


def _print_document(stream: Stream) -> None:
    """Print one JSON object, row by row; if this raises QueryError, `end_document` must be called."""
    sys.stdout.write(f'{{"columns": {_to_json(stream.columns)}, "rows": [')
    for number, record in enumerate(_records(stream)):
        sys.stdout.write(f", {record}" if number else record)
    end_document({"exit_code": int(ExitCode.COMPLETE)})


def end_document(members: Mapping[str, object]) -> None:
    """Print what follows the rows of a JSON object."""
    sys.stdout.write(f"], {_to_json(members)[1:]}\n")


_WRITERS: Mapping[str, Callable[[Stream], None]] = {
    "table": print_table,
    "box": _print_box,
    "line": _print_fields,
    "csv": _print_csv,
    "json": _print_document,
    "jsonl": _print_json_lines,
    "markdown": _print_markdown,
}


def print_stream(stream: Stream, style: str) -> int:
    """Print a query's result in a format; return the number of rows. Raises QueryError."""
    rows = 0

    def counted() -> Iterator[list[Row]]:
        nonlocal rows
        for batch in stream.batches:
            rows += len(batch)
            yield batch

    _WRITERS[style](replace(stream, batches=counted()))
    return rows
