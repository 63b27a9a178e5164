"""Stacked columns as SVG of any width: positions are percentages, so that text keeps its size on a phone."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from markupsafe import Markup

from models.runs import one_line

_ROOM_ABOVE = 8
_ROOM_BELOW = 20
_MARKS = 4
_LABELS = 7
# So that a few columns do not fill the width.
_PLACES = 12
_UNITS = ("", "k", "M", "G", "T")


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element; all text is escaped. `class_` is class; attributes that are None are omitted."""
    given = Markup().join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, Markup().join(children))


def to_axis(value: float) -> str:
    """Return a number for an axis: 950, 1.2k, 3M."""
    index = min(floor(log10(abs(value)) / 3), len(_UNITS) - 1) if abs(value) >= 1000 else 0
    return f"{value / 1000**index:.3g}{_UNITS[index]}"


def find_marks(low: float, high: float) -> list[int]:
    """Return round whole numbers, equally far apart, whose range includes `low`, `high` and zero."""
    span = max(high, 0) - min(low, 0)
    size = 10 ** floor(log10(max(span / _MARKS, 1)))
    step = next(each * size for each in (1, 2, 5, 10) if span <= each * size * _MARKS)
    first, last = floor(min(low, 0) / step), ceil(max(high, 0) / step)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


def draw_columns(name: str, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], height: int = 120) -> Markup:
    """Return stacked columns, one per row. Only a column of one kind may be negative, which is below the zero line.

    A row has a `name` for its tooltip, a `label` for the axis, and a value for each kind. A kind has a style, a class
    of the style sheet. A value that is None is a gap without data, and hatched. `name` is what is read aloud.
    """
    sums = [sum(row.get(kind) or 0 for kind in kinds) for row in rows]
    marks = find_marks(min(sums, default=0), max(sums, default=0))
    places = max(len(rows), _PLACES)

    def x(place: float) -> str:
        return f"{100 * place / places:.2f}%"

    def y(value: float) -> float:
        return round(_ROOM_ABOVE + height * (marks[-1] - value) / (marks[-1] - marks[0]), 1)

    drawn = []
    for mark in marks:
        drawn.append(element("line", x1="0", x2="100%", y1=y(mark), y2=y(mark), class_="grid" if mark else "axis"))
        drawn.append(element("text", to_axis(mark), x="-6", y=y(mark) + 4, text_anchor="end"))
    for index, row in enumerate(rows):
        values = {kind: row.get(kind, 0) for kind in kinds}
        back = "gap" if None in values.values() else "hit"
        parts = [
            element("title", _describe(row["name"], values)),
            element("rect", x=x(index), width=x(1), y=_ROOM_ABOVE, height=height, class_=back),
        ]
        end = 0
        for kind, value in values.items():
            if value:
                begin, end = end, end + value
                # Always visible: users look for the one failure among 100,000 scans.
                thick = round(max(abs(y(begin) - y(end)), 1.5), 1)
                top = round(max(y(begin), y(end)) - thick, 1)
                parts.append(element("rect", x=x(index + 0.1), width=x(0.8), y=top, height=thick, class_=kinds[kind]))
        drawn.append(element("g", *parts))
    step = ceil(places / _LABELS)
    for index, row in enumerate(rows[::step]):
        # On a narrow screen the style sheet hides every second one.
        at = {"x": x(index * step + 0.5), "y": height + _ROOM_ABOVE + 14, "class_": "alt" if index % 2 else None}
        drawn.append(element("text", row["label"], **at, text_anchor="middle"))
    size = {"width": "100%", "height": height + _ROOM_ABOVE + _ROOM_BELOW}
    return element("svg", *drawn, class_="chart", **size, role="img", aria_label=name)


def _describe(name: str, values: Mapping[str, int | None]) -> str:
    """Return a tooltip: the values that are not zero, or the only one."""
    lines = [one_line(name, 120)]
    for kind, value in values.items():
        if value != 0 or len(values) == 1:
            lines.append(f"{kind.replace('_', ' ')}: {'not observed' if value is None else f'{value:,}'}")
    return "\n".join(lines)
