"""Tables that fit the terminal, and the results of queries in every format."""

import csv
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
from humanize import naturalsize
from rich.box import SIMPLE_HEAD, SQUARE, Box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from connectors.warehouse.queries.reader import Stream
from flows.cli.terminal import (
    UNLIMITED,
    clean,
    escape_json,
    failure,
    out,
    row,
    show,
    without_control_characters,
)
from flows.config.errors import ExitCode
from flows.reporting.progress import notices
from flows.reporting.words import count, moment, span
from models.files import QueryError, WarehouseUnusable
from models.runs import one_line

Row = tuple[Any, ...]

SHOWN = 200
"""The rows that a table or box of a query has; the other formats have all."""

# Prose is cut to this width if there is no more room.
_LEAST = 10

# The characters shown of a text, also where there is room.
_LONGEST = 300

_NUMERIC = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BIGNUM|FLOAT|DOUBLE|DECIMAL\(.*\)")

# Text with a space, JSON and lists may be cut; an id, a name or an address may not.
_PROSE = re.compile(r"VARCHAR|JSON|.*(\[\d*\]|\))", re.DOTALL)
_CUT = re.compile(r"\s|\A[\[{]")


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a column, and how its values are shown: prose may be cut, numbers are on the right."""

    title: str
    is_prose: bool = False
    is_number: bool = False


def table(
    columns: Sequence[Heading], rows: Sequence[Sequence[Text]], *, box: Box | None = None, others: str = "`--json`"
) -> Iterator[RenderableType]:
    """Yield a table of the columns that fit, and the names of those that do not; `others` is what shows them.

    Numbers, ids, names and times are whole, prose is cut with an ellipsis.
    """
    titles = [Text(without_control_characters(column.title)) for column in columns]
    widths = [max(cell.cell_len for cell in cells) for cells in zip(titles, *rows, strict=True)]
    least = [min(wide, _LEAST) if column.is_prose else wide for wide, column in zip(widths, columns, strict=True)]
    number = len(columns)
    while number > 1 and sum(least[:number]) + number - 1 > out.width:
        number -= 1
    gap = 2 if sum(least[:number]) + 2 * (number - 1) <= out.width else 1
    # A box adds a character between columns.
    grid = Table(box=box, header_style="bold", pad_edge=False, show_edge=False, padding=(0, gap - bool(box), 0, 0))
    for column, title, wide in islice(zip(columns, titles, widths, strict=True), number):
        grid.add_column(
            title,
            justify="right" if column.is_number else "left",
            # Rich shares out what is left among the columns without a width.
            width=None if column.is_prose else min(wide, out.width),
            overflow="ellipsis" if column.is_prose else "fold",
        )
    for cells in (titles, *rows):
        for column, cell in zip(columns, cells, strict=True):
            cell.no_wrap = column.is_prose
    for cells in rows:
        grid.add_row(*cells[:number])
    yield grid
    if left := [title.plain for title in titles[number:]]:
        yield Text(f"({count(len(left), 'more column')}: {', '.join(left)}; {others} shows all)", "dim")


def listing(
    rows: Sequence[Mapping[str, object]],
    names: str,
    *,
    prose: str = "",
    styles: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[RenderableType]:
    """Yield a list of the columns with these names, without those that have no value; those of `prose` may be cut.

    Times are in UTC. `styles` are those of values.
    """
    filled = [name for name in names.split() if any(row.get(name) not in (None, "") for row in rows)]
    columns = [
        Heading(name, name in prose.split(), any(isinstance(row.get(name), int | timedelta) for row in rows))
        for name in filled
    ]
    texts = [[_text(row.get(name)) for name in filled] for row in rows]
    return table(columns, [[Text(text, styles.get(text, "")) for text in each] for each in texts])


def fields(document: Mapping[str, object]) -> Iterator[RenderableType]:
    """Yield the values of a document that are not empty, each behind its name; those of bytes as a size."""
    for name, value in document.items():
        if name != "exit_code" and value not in (None, "", (), [], {}):
            yield row(f"[dim]{name.replace('_', ' '):<15}[/]", text=_field(name, value))


def _field(name: str, value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {_field(key, each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    if isinstance(value, datetime):
        return f"{moment(value)} UTC"
    return naturalsize(str(value)) if "bytes" in name else _text(value)


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, timedelta):
        return span(value.total_seconds())
    if isinstance(value, int):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value
    return one_line(without_control_characters(text), _LONGEST)


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


def _first(rows: Iterator[Row]) -> list[list[Text]]:
    """Return the first rows, and read the others, so that they are counted."""
    first = [
        [Text("NULL", "dim") if value is None else Text(without_control_characters(value)) for value in values]
        for values in islice(rows, SHOWN)
    ]
    deque(rows, maxlen=0)
    return first


def _to_table(stream: Stream, rows: Iterator[Row]) -> Iterator[RenderableType]:
    """Yield the first rows as a table that fits the terminal."""
    cells = _first(rows)
    columns = [
        Heading(
            name,
            is_prose=bool(_PROSE.fullmatch(kind)) and any(_CUT.search(values[at].plain) for values in cells),
            is_number=_NUMERIC.fullmatch(kind) is not None,
        )
        for at, (name, kind) in enumerate(zip(stream.columns, stream.kinds, strict=True))
    ]
    return table(columns, cells, box=SIMPLE_HEAD, others="`--format line`")


def _to_box(stream: Stream, rows: Iterator[Row]) -> Iterator[RenderableType]:
    """Yield the first rows with all columns, whose values are folded if they do not fit."""
    grid = Table(box=SQUARE, header_style="bold")
    for name in stream.columns:
        grid.add_column(clean(name), overflow="fold")
    for cells in _first(rows):
        grid.add_row(*cells)
    yield grid


def _to_lines(stream: Stream, rows: Iterator[Row]) -> Iterator[RenderableType]:
    """Yield a line for each value, and an empty one after each row."""
    names = [clean(name) for name in stream.columns]
    wide = max(map(len, names))
    for values in rows:
        for name, value in zip(names, values, strict=True):
            yield row(f"[bold]{name:<{wide}}[/]", text="NULL" if value is None else value)
        yield Text()


def _to_csv(stream: Stream, rows: Iterator[Row]) -> Iterator[str]:
    # With its own ends of lines, the writer would not quote a value with a carriage return.
    lines = SimpleNamespace(write=lambda line: _write(line.removesuffix("\r\n") + "\n"))
    csv.writer(lines).writerows(chain([stream.columns], rows))
    return iter(())


def _to_markdown(stream: Stream, rows: Iterator[Row]) -> Iterator[str]:
    rules = tuple("---:" if _NUMERIC.fullmatch(kind) else "---" for kind in stream.kinds)
    for values in chain([stream.columns, rules], rows):
        cells = ("" if value is None else without_control_characters(value).replace("|", "\\|") for value in values)
        yield f"| {' | '.join(cells)} |\n"


def _encode(value: object) -> str:
    return escape_json(msgspec.json.encode(value).decode())


def _to_json_lines(stream: Stream, rows: Iterator[Row]) -> Iterator[str]:
    for values in rows:
        yield f"{_encode(dict(zip(stream.columns, values, strict=True)))}\n"


def _to_document(stream: Stream, rows: Iterator[Row]) -> Iterator[str]:
    """Yield one JSON object, row by row. A query that fails after its first rows ends it, and exits."""
    yield f'{{"columns": {_encode(stream.columns)}, "rows": ['
    try:
        for number, line in enumerate(_to_json_lines(stream, rows)):
            yield f", {line.rstrip()}" if number else line.rstrip()
    except (QueryError, WarehouseUnusable) as error:
        notices.error(str(error))
        failed = failure(ExitCode.WRONG_USAGE if isinstance(error, QueryError) else ExitCode.FAILED, str(error))
        yield f"], {_encode(failed.document)[1:]}\n"
        raise SystemExit(failed.code) from None
    yield '], "exit_code": 0}\n'


_FORMATS: Mapping[str, Callable[[Stream, Iterator[Row]], Iterator[RenderableType]]] = {
    "table": _to_table,
    "box": _to_box,
    "line": _to_lines,
    "csv": _to_csv,
    "json": _to_document,
    "jsonl": _to_json_lines,
    "markdown": _to_markdown,
}


def _write(text: str) -> None:
    sys.stdout.write(without_control_characters(text, newlines=True) if sys.stdout.isatty() else text)


def print_stream(stream: Stream, style: str) -> int:
    """Print a query's result in a format; return the number of rows. Raises QueryError."""
    number = 0

    def rows() -> Iterator[Row]:
        nonlocal number
        for batch in stream.batches:
            number += len(batch)
            yield from batch

    for piece in _FORMATS[style](stream, rows()):
        # Formats for programs yield text.
        if isinstance(piece, str):
            _write(piece)
        else:
            show(piece)
    return number
