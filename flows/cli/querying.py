"""`gramhouse query`: ask the snapshot."""

import csv
import json
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from connectors.warehouse.snapshot import Answer, QueryError, open_snapshot
from flows.cli.options import SnapshotFile
from flows.cli.terminal import FAIL, clean, err, out
from flows.exit_code import ExitCode
from flows.settings import load
from flows.words import count

_SHOWN = 200


class Format(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def print_answer(answer: Answer, title: str | None = None) -> None:
    """Print an answer as a table, its first 200 rows at most."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for place, name in enumerate(answer.columns):
        numeric = any(isinstance(row[place], int | float) for row in answer.rows[:_SHOWN])
        table.add_column(clean(name), justify="right" if numeric else "left", overflow="ellipsis")
    for row in answer.rows[:_SHOWN]:
        table.add_row(*("[dim]NULL[/]" if value is None else clean(value) for value in row))
    out.print(table)
    if len(answer.rows) > _SHOWN:
        out.print(f"[dim]the first {_SHOWN} of {count(len(answer.rows), 'row')}; `--format csv` writes all[/]")


def _csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(answer.columns)
    writer.writerows(answer.rows)


def _json(answer: Answer) -> None:
    json.dump(answer.records(), sys.stdout, default=str, ensure_ascii=False)
    sys.stdout.write("\n")


_WRITERS = {Format.TABLE: print_answer, Format.CSV: _csv, Format.JSON: _json}


def query(
    sql: Annotated[str, typer.Argument(help="The question, in DuckDB's SQL; `-` reads it from standard input.")],
    *,
    style: Annotated[Format, typer.Option("--format", "-f", help="How the answer is written.")] = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    snapshot: SnapshotFile = None,
) -> None:
    """Ask the snapshot a question, at any hour: no sync is disturbed by it, or disturbs it."""
    settings = load(snapshot=snapshot)
    question = sys.stdin.read() if sql == "-" else sql
    with open_snapshot(settings.snapshot) as opened:
        try:
            answer = opened.ask(question)
        except QueryError as error:
            err.print(f"{FAIL} {clean(error, newlines=True)}")
            raise typer.Exit(ExitCode.WRONG_USAGE) from None
    _WRITERS[Format.JSON if as_json else style](answer)
