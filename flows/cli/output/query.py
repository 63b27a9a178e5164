"""The result of a query in the formats of `gramhouse query`."""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD, SQUARE
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from connectors.warehouse.queries.reader import Stream
from connectors.warehouse.storage.errors import QueryError, WarehouseUnusable
from flows.cli.output.table import Column, table
from flows.cli.output.terminal import (
    UNLIMITED,
    clean,
    escape_json,
    failure,
    out,
    row,
    without_control_characters,
)
from flows.config.errors import ExitCode
from flows.reporting.progress import notices

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


def _cells(values: Row) -> list[Text]:
    return [Text("NULL", "dim") if value is None else Text(without_control_characters(value)) for value in values]


def _to_table(stream: Stream) -> Iterator[RenderableType]:
    """Yield the first rows as a table that fits the terminal."""
    rows = _first(stream)
    columns = [
        Column(
            without_control_characters(name),
            is_prose=bool(_PROSE.fullmatch(kind)) and any(_CUT.search(values[at] or "") for values in rows),
            is_number=_NUMERIC.fullmatch(kind) is not None,
        )
        for at, (name, kind) in enumerate(zip(stream.columns, stream.kinds, strict=True))
    ]
    return table(columns, list(map(_cells, rows)), box=SIMPLE_HEAD, others="`--format line`")


def _to_box(stream: Stream) -> Iterator[RenderableType]:
    """Yield the first rows with all columns, whose values are folded if they do not fit."""
    grid = Table(box=SQUARE, header_style="bold")
    for name in stream.columns:
        grid.add_column(clean(name), overflow="fold")
    for values in _first(stream):
        grid.add_row(*_cells(values))
    yield grid


def _to_lines(stream: Stream) -> Iterator[RenderableType]:
    """Yield a line for each value, and an empty one after each row."""
    names = [clean(name) for name in stream.columns]
    wide = max(map(len, names))
    for values in chain.from_iterable(stream.batches):
        for name, value in zip(names, values, strict=True):
            yield row(f"[bold]{name:<{wide}}[/]", "[dim]NULL[/]" if value is None else clean(value))
        yield ""


def _to_csv(stream: Stream) -> Iterator[str]:
    for batch in chain([[stream.columns]], stream.batches):
        text = io.StringIO(newline="")
        csv.writer(text).writerows(batch)
        yield text.getvalue()


def _to_markdown(stream: Stream) -> Iterator[str]:
    rules = tuple("---:" if _NUMERIC.fullmatch(kind) else "---" for kind in stream.kinds)
    for values in chain([stream.columns, rules], chain.from_iterable(stream.batches)):
        cells = ("" if value is None else without_control_characters(value).replace("|", "\\|") for value in values)
        yield f"| {' | '.join(cells)} |\n"


def _encode(value: object) -> str:
    return escape_json(msgspec.json.encode(value).decode())


def _to_json_lines(stream: Stream) -> Iterator[str]:
    for values in chain.from_iterable(stream.batches):
        yield f"{_encode(dict(zip(stream.columns, values, strict=True)))}\n"


def _to_document(stream: Stream) -> Iterator[str]:
    """Yield one JSON object, row by row. A query that fails after its first rows ends it, and exits."""
    yield f'{{"columns": {_encode(stream.columns)}, "rows": ['
    try:
        for number, line in enumerate(_to_json_lines(stream)):
            yield f", {line.rstrip()}" if number else line.rstrip()
    except (QueryError, WarehouseUnusable) as error:
        notices.error(str(error))
        failed = failure(ExitCode.WRONG_USAGE if isinstance(error, QueryError) else ExitCode.FAILED, str(error))
        yield f"], {_encode(failed.document)[1:]}\n"
        raise SystemExit(failed.code) from None
    yield '], "exit_code": 0}\n'


_FORMATS: Mapping[str, Callable[[Stream], Iterator[RenderableType]]] = {
    "table": _to_table,
    "box": _to_box,
    "line": _to_lines,
    "csv": _to_csv,
    "json": _to_document,
    "jsonl": _to_json_lines,
    "markdown": _to_markdown,
}


def print_stream(stream: Stream, style: str) -> int:
    """Print a query's result in a format; return the number of rows. Raises QueryError."""
    rows = 0

    def counted() -> Iterator[list[Row]]:
        nonlocal rows
        for batch in stream.batches:
            rows += len(batch)
            yield batch

    is_for_programs = style in ("csv", "json", "jsonl", "markdown")
    for piece in _FORMATS[style](replace(stream, batches=counted())):
        if is_for_programs:
            sys.stdout.write(without_control_characters(piece, newlines=True) if sys.stdout.isatty() else str(piece))
        else:
            out.print(piece)
    return rows
