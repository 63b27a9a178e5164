"""Tables that fit the terminal: numbers, ids, names and times are whole, prose is cut with an ellipsis."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from rich.box import Box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from flows.cli.output.terminal import clean, out, without_control_characters
from flows.reporting.words import count, moment, span
from models.runs import one_line

# Prose is cut to this width if there is no more room, and to that of its title at least.
_LEAST = 10

# The characters shown of a text, also where there is room.
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Column:
    """The title of a column, and how its values are shown: prose may be cut, numbers are on the right."""

    title: str
    is_prose: bool = False
    is_number: bool = False


def fit(columns: Sequence[Column], rows: Sequence[Sequence[Text]], width: int) -> tuple[list[int], int]:
    """Return the widths of the first columns that fit into `width`, at least one, and that of the gap between them."""
    titles = [Text(column.title).cell_len for column in columns]
    whole = [max([title, *(row[at].cell_len for row in rows)]) for at, title in enumerate(titles)]
    least = [
        min(wide, max(_LEAST, title)) if column.is_prose else wide
        for wide, title, column in zip(whole, titles, columns, strict=True)
    ]
    gap = 1 if sum(least) + len(least) - 1 <= width < sum(least) + 2 * (len(least) - 1) else 2
    number = len(least)
    while number > 1 and sum(least[:number]) + gap * (number - 1) > width:
        number -= 1
    spare, widths = width - sum(least[:number]) - gap * (number - 1), list[int]()
    for wide, narrow in zip(whole[:number], least, strict=False):
        more = max(min(wide - narrow, spare), 0)
        widths.append(min(narrow + more, width))
        spare -= more
    return widths, gap


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Text]], *, box: Box | None = None, others: str = "`--json`"
) -> Iterator[RenderableType]:
    """Yield a table, and the names of the columns that do not fit and are left out; `others` is what shows them."""
    widths, gap = fit(columns, rows, out.width)
    # A box adds a character between columns.
    grid = Table(box=box, header_style="bold", pad_edge=False, show_edge=False, padding=(0, gap - bool(box), 0, 0))
    for column, width in zip(columns, widths, strict=False):
        grid.add_column(
            clean(column.title),
            justify="right" if column.is_number else "left",
            width=width,
            no_wrap=column.is_prose,
            overflow="ellipsis" if column.is_prose else "fold",
        )
    for cells in rows:
        grid.add_row(*cells[: len(widths)])
    yield grid
    if left := [clean(column.title) for column in columns[len(widths) :]]:
        yield f"[dim]({count(len(left), 'more column')}: {', '.join(left)}; {others} shows all)[/]"


def listing(
    rows: Sequence[Mapping[str, object]],
    names: Sequence[str],
    *,
    prose: Collection[str] = (),
    styles: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[RenderableType]:
    """Yield a list of these columns, without those that have no value; those of `prose` may be cut.

    Times are in UTC. `styles` are those of values.
    """
    filled = [name for name in names if any(row.get(name) not in (None, "") for row in rows)]
    columns = [
        Column(name, name in prose, any(isinstance(row.get(name), int | timedelta) for row in rows)) for name in filled
    ]
    texts = [[_text(row.get(name)) for name in filled] for row in rows]
    return table(columns, [[Text(text, styles.get(text, "")) for text in each] for each in texts])


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return moment(value)
    if isinstance(value, timedelta):
        return span(value.total_seconds())
    if isinstance(value, int):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value
    return one_line(without_control_characters(text), _LONGEST)
