"""`gramhouse query`: query the snapshot."""

import csv
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from connectors.warehouse.raw.listed import mentions_raw_media
from connectors.warehouse.snapshot.reader import Answer, Stream, open_snapshot
from connectors.warehouse.storage.errors import QueryError
from flows.cli.fetching import current_snapshot
from flows.cli.options import SnapshotFile
from flows.cli.output.query_json import Destination, Document
from flows.cli.output.terminal import FAIL, clean, err, failure, out, steerless
from flows.config.settings import load
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count

_SHOWN = 200


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def _print_table(columns: Sequence[str], shown: Sequence[tuple[Any, ...]], rows: int) -> None:
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in shown)
        table.add_column(clean(name), justify="right" if numeric else "left", overflow="ellipsis")
    for row in shown:
        table.add_row(*("[dim]NULL[/]" if value is None else clean(value) for value in row))
    out.print(table)
    if rows > len(shown):
        out.print(f"[dim]first {len(shown)} of {count(rows, 'row')}; `--format csv` prints all[/]")


def print_answer(answer: Answer) -> None:
    """Print an answer as a table, its first 200 rows at most."""
    _print_table(answer.columns, answer.rows[:_SHOWN], len(answer.rows))


def _table(stream: Stream) -> None:
    shown: list[tuple[Any, ...]] = []
    rows = 0
    for batch in stream.batches:
        shown += batch[: _SHOWN - len(shown)]
        rows += len(batch)
    _print_table(stream.columns, shown, rows)


class _Terminal:
    """Standard output for raw rows, which may steer a program but no terminal."""

    def write(self, text: str) -> int:
        return sys.stdout.write(steerless(text, newlines=True))


def _destination() -> Destination:
    return _Terminal() if sys.stdout.isatty() else sys.stdout


def _csv(stream: Stream) -> None:
    writer = csv.writer(_destination())
    writer.writerow(stream.columns)
    for batch in stream.batches:
        writer.writerows(batch)


_WRITERS = {Format.TABLE: _table, Format.CSV: _csv}


@contextmanager
def _gone_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process: a reader has nothing to tidy up, and DuckDB looks for it only now and then."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def query(
    sql: Annotated[str, typer.Argument(help="SQL query in DuckDB's dialect; `-` reads it from standard input.")],
    *,
    style: Annotated[Format, typer.Option("--format", "-f", help="Output format.")] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    snapshot: SnapshotFile = None,
) -> None:
    """Run a SQL query on the snapshot. Queries and syncs do not block each other.

    In addition to the tables and views, raw_media contains the newest raw JSON of each media item.
    """
    settings = load(snapshot=snapshot)
    text = sys.stdin.read() if sql == "-" else sql
    # What was typed need not be UTF-8; DuckDB takes nothing else.
    question = text.encode(errors="surrogateescape").decode(errors="replace")
    with open_snapshot(current_snapshot(settings), with_raw=mentions_raw_media(question)) as opened:
        document = Document(_destination()) if as_json or style is Format.JSON else None
        try:
            with document.ended_by_signals() if document else _gone_at_once():
                write = document.write if document else _WRITERS[style]
                write(opened.question(question))
        except QueryError as error:
            err.print(f"{FAIL} {clean(error, newlines=True)}")
            if document:
                document.end(failure(ExitCode.WRONG_USAGE, str(error)))
            raise typer.Exit(ExitCode.WRONG_USAGE) from None
