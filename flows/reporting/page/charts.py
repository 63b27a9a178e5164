"""Stacked columns as SVG of any width: positions are percentages, so that text keeps its size on a phone."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from markupsafe import Markup

_ROOM_ABOVE = 8
_ROOM_BELOW = 20
_MARKS = 4
_LABELS = 7
# So that a few columns do not fill the width.
_PLACES = 12
# The part of its place that a column fills.
_FULL = 0.8
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
    """Return stacked columns, one per row; negative values are below the zero line.

    A row has a `name` for its tooltip, a `label` for the axis, and a value for each kind. A kind has a style, a class
    of the style sheet. A value that is None is a gap without data, and hatched. `name` is what is read aloud.
    """
    stacks = [[row.get(kind) or 0 for kind in kinds] for row in rows]
    low = min((sum(value for value in stack if value < 0) for stack in stacks), default=0)
    high = max((sum(value for value in stack if value > 0) for stack in stacks), default=0)
    marks = find_marks(low, high)
    places = max(len(rows), _PLACES)

    def y(value: float) -> float:
        return round(_ROOM_ABOVE + height * (marks[-1] - value) / (marks[-1] - marks[0]), 1)

    drawn = []
    for mark in marks:
        drawn.append(element("line", x1="0", x2="100%", y1=y(mark), y2=y(mark), class_="grid" if mark else "axis"))
        drawn.append(element("text", to_axis(mark), x="-6", y=y(mark) + 4, text_anchor="end"))
    for index, row in enumerate(rows):
        style = "gap" if any(row.get(kind, 0) is None for kind in kinds) else "hit"
        place = {"x": _percent(index / places), "width": _percent(1 / places)}
        parts = [_tooltip(row, kinds), element("rect", **place, y=_ROOM_ABOVE, height=height, class_=style)]
        at = {"x": _percent((index + (1 - _FULL) / 2) / places), "width": _percent(_FULL / places)}
        ends = {True: 0.0, False: 0.0}
        for value, style in zip(stacks[index], kinds.values(), strict=True):
            if value:
                begin = ends[value > 0]
                ends[value > 0] = end = begin + value
                # Always visible: users look for the one failure among 100,000 scans.
                thick = round(max(abs(y(begin) - y(end)), 1.5), 1)
                top = round(max(y(begin), y(end)) - thick, 1)
                parts.append(element("rect", **at, y=top, height=thick, class_=style))
        drawn.append(element("g", *parts))
    drawn += _draw_labels([row["label"] for row in rows], places, height + _ROOM_ABOVE + 14)
    size = {"width": "100%", "height": height + _ROOM_ABOVE + _ROOM_BELOW}
    return element("svg", *drawn, class_="chart", **size, role="img", aria_label=name)


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _tooltip(row: Mapping[str, Any], kinds: Mapping[str, str]) -> Markup:
    values = {kind: row.get(kind, 0) for kind in kinds}
    if set(values.values()) == {None}:
        return element("title", f"{row['name']}\nnot observed")
    shown = [
        f"{kind.replace('_', ' ')}: {'not observed' if value is None else f'{value:,}'}"
        for kind, value in values.items()
        if value != 0 or len(kinds) == 1
    ]
    return element("title", "\n".join([row["name"], *shown]))


def _draw_labels(labels: Sequence[str], places: int, y: float) -> Iterator[Markup]:
    """Yield the labels that fit. On a narrow screen the style sheet hides every second one."""
    shown = list[int]()
    for index, label in enumerate(labels):
        if label and (not shown or index - shown[-1] >= places / _LABELS):
            shown.append(index)
    for number, index in enumerate(shown):
        style = "alt" if number % 2 else None
        x = _percent((index + 0.5) / places)
        yield element("text", labels[index], x=x, y=y, text_anchor="middle", class_=style)
