"""Lists as tables without lines."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal

from rich.table import Table
from rich.text import Text

from flows.cli.output.terminal import out, without_control_characters
from flows.reporting.words import moment, span

# On a narrow terminal only these are wrapped or truncated; --json prints all of them.
_NARROWED = {"account id", "description", "run", "type"}


def print_rows(
    rows: Sequence[Mapping[str, object]],
    columns: Mapping[str, str],
    styles: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print rows; `columns` are the titles of the columns and the names of their values, `styles` those of values.

    Numbers and durations are on the right, times are in UTC, and None is empty.
    """
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
