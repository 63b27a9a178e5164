"""`gramhouse query`: ask the snapshot."""

import csv
import json
import math
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from connectors.warehouse.snapshot import Answer, QueryError, open_snapshot
from flows.cli.options import SnapshotFile
from flows.cli.terminal import FAIL, clean, err, out, steerless
from flows.exit_code import ExitCode
from flows.settings import load
from flows.words import count

_SHOWN = 200


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_answer(answer: Answer) -> None:
    """Print an answer as a table, its first 200 rows at most."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for place, name in enumerate(answer.columns):
        numeric = any(isinstance(row[place], int | float) for row in answer.rows[:_SHOWN])
        table.add_column(clean(name), justify="right" if numeric else "left", overflow="ellipsis")
    for row in answer.rows[:_SHOWN]:
        table.add_row(*("[dim]NULL[/]" if value is None else clean(value) for value in row))
    out.print(table)
    if len(answer.rows) > _SHOWN:
        out.print(f"[dim]the first {_SHOWN} of {count(len(answer.rows), 'row')}; `--format csv` writes all[/]")


class _Terminal:
    """Standard output for raw rows, which may steer a program but no terminal."""

    def write(self, text: str) -> int:
        return sys.stdout.write(steerless(text, newlines=True))


def _destination() -> TextIO | _Terminal:
    return _Terminal() if sys.stdout.isatty() else sys.stdout


def _csv(answer: Answer) -> None:
    writer = csv.writer(_destination())
    writer.writerow(answer.columns)
    writer.writerows(answer.rows)


def _plain(value: object) -> object:
    """Return a value that JSON can hold: its keys are text, and it knows no NaN."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(answer: Answer) -> None:
    destination = _destination()
    json.dump([_plain(record) for record in answer.records()], destination, default=str, ensure_ascii=False)
    destination.write("\n")


_WRITERS = {Format.TABLE: print_answer, Format.CSV: _csv, Format.JSON: _json}


@contextmanager
def _gone_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process: a reader has nothing to tidy up, and DuckDB looks for it only now and then."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def query(
    sql: Annotated[str, typer.Argument(help="The question, in DuckDB's SQL; `-` reads it from standard input.")],
    *,
    style: Annotated[Format, typer.Option("--format", "-f", help="How the answer is written.")] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    snapshot: SnapshotFile = None,
) -> None:
    """Ask the snapshot a question, at any hour: no sync is disturbed by it, or disturbs it."""
    settings = load(snapshot=snapshot)
    text = sys.stdin.read() if sql == "-" else sql
    # What was typed need not be UTF-8; DuckDB takes nothing else.
    question = text.encode(errors="surrogateescape").decode(errors="replace")
    with open_snapshot(settings.snapshot) as opened:
        try:
            with _gone_at_once():
                answer = opened.ask(question)
        except QueryError as error:
            err.print(f"{FAIL} {clean(error, newlines=True)}")
            raise typer.Exit(ExitCode.WRONG_USAGE) from None
    _WRITERS[Format.JSON if as_json else style](answer)
