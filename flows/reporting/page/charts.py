"""Charts as SVG of any width: positions are percentages, so that text keeps its size on a phone.

A chart's rows are mappings: `name` is the title of a row's tooltip, `label` its label on the axis, and there is a value
for each kind. A kind of value has a style, which is a class of the page's style sheet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from markupsafe import Markup

from models.text import one_line

Kinds = Mapping[str, str]
Row = Mapping[str, Any]

_HEIGHT = 150
_LINES_HEIGHT = 220
_MARKS = 4
_ROOM_BELOW = 20
_ROOM_ABOVE = 8
_WIDE = 1000
_STEPS = (1, 2, 2.5, 5, 10)
_LABELS = 7
_FULL = 0.8
# The minimum number of columns for which there is room, so that a few columns do not fill the width.
_PLACES = 12
_THOUSAND = 1000
_UNITS = ("", "k", "M", "G", "T", "P", "E")


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element; all text is escaped. `class_` is class; attributes that are None are omitted."""
    given = Markup().join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, given, Markup().join(children))


def short(value: float) -> str:
    """Return a number for an axis: 950, 1.2k, 3M."""
    index = min(floor(log10(abs(value)) / 3), len(_UNITS) - 1) if abs(value) >= _THOUSAND else 0
    return f"{value / _THOUSAND**index:.3g}{_UNITS[index]}"


def ticks(low: float, high: float) -> list[float]:
    """Return round values for an axis whose range includes `low`, `high` and zero."""
    span = max(high, 0) - min(low, 0)
    if not span:
        return [0, 1]
    size: float = 10 ** floor(log10(span / _MARKS))
    step = next(found for each in _STEPS if span <= (found := each * size) * _MARKS)
    if max(abs(low), abs(high)) >= 1:
        step = max(step, 1)
    first, last = floor(min(low, 0) / step), -floor(-max(high, 0) / step)
    return [index * step for index in range(first, max(last, first + 1) + 1)]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _drawing(name: str, height: int, *parts: str) -> Markup:
    return element("svg", *parts, class_="chart", width="100%", height=height, role="img", aria_label=name)


@dataclass(frozen=True, slots=True)
class _Scale:
    marks: Sequence[float]
    height: int

    def y(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        return round(_ROOM_ABOVE + self.height * (high - value) / (high - low), 1)

    def grid(self) -> Iterator[Markup]:
        for mark in self.marks:
            y = self.y(mark)
            yield element("line", x1="0", x2="100%", y1=y, y2=y, class_="grid" if mark else "axis")
            yield element("text", short(mark), x="-6", y=y + 4, text_anchor="end")


def _labels(labels: Sequence[str], indexes: int, y: float) -> Iterator[Markup]:
    """Yield the labels that fit. On a narrow screen the style sheet hides every second one."""
    shown: list[int] = []
    for index, label in enumerate(labels):
        if label and (not shown or index - shown[-1] >= indexes / _LABELS):
            shown.append(index)
    for number, index in enumerate(shown):
        yield _label(labels[index], (index + 0.5) / indexes, y, number)


def _label(text: str, place: float, y: float, number: int, anchor: str = "middle") -> Markup:
    return element("text", text, x=_percent(place), y=y, text_anchor=anchor, class_="alt" if number % 2 else None)


def _tooltip(row: Row, kinds: Kinds) -> Markup:
    values = {kind: row.get(kind, 0) for kind in kinds}
    lines = [
        f"{kind.replace('_', ' ')}: {'no run' if value is None else f'{value:,}'}"
        for kind, value in values.items()
        if value != 0 or len(kinds) == 1
    ]
    is_empty = set(values.values()) == {None}
    return element("title", "\n".join([row["name"], *(["no run"] if is_empty else lines)]))


def columns(name: str, rows: Sequence[Row], kinds: Kinds, *, height: int = _HEIGHT) -> Markup:
    """Return stacked columns, one per row; negative values are below the zero line.

    A row with a value that is None is a gap without data, and hatched.
    """
    stacks = [[row[kind] for kind in kinds if row.get(kind)] for row in rows]
    high = max((sum(v for v in stack if v > 0) for stack in stacks), default=0)
    low = min((sum(v for v in stack if v < 0) for stack in stacks), default=0)
    scale = _Scale(ticks(low, high), height)
    indexes = max(len(rows), _PLACES)
    step = 1 / indexes
    drawn = []
    for index, row in enumerate(rows):
        is_gap = any(row.get(kind, 0) is None for kind in kinds)
        whole = {"x": _percent(index * step), "width": _percent(step), "y": _ROOM_ABOVE, "height": height}
        at = {"x": _percent((index + (1 - _FULL) / 2) * step), "width": _percent(_FULL * step)}
        parts = [_tooltip(row, kinds), element("rect", **whole, class_="gap" if is_gap else "hit")]
        above = below = 0.0
        for kind, style in kinds.items():
            if not (value := row.get(kind)):
                continue
            begin = above if value > 0 else below
            top, bottom = scale.y(max(begin, begin + value)), scale.y(min(begin, begin + value))
            # Always visible: users look for the one failure among 100,000 scans.
            thick = round(max(bottom - top, 1.5), 1)
            parts.append(element("rect", **at, y=round(bottom - thick, 1), height=thick, class_=style))
            above, below = (above + value, below) if value > 0 else (above, below + value)
        drawn.append(element("g", *parts))
    labels = _labels([row["label"] for row in rows], indexes, height + _ROOM_ABOVE + 14)
    return _drawing(name, height + _ROOM_ABOVE + _ROOM_BELOW, *scale.grid(), *drawn, *labels)


def _steps(points: Sequence[tuple[float, float]], scale: _Scale, x_most: float) -> str:
    placed = [(round(_WIDE * x / x_most, 1), scale.y(y)) for x, y in points]
    return f"M{placed[0][0]} {placed[0][1]}" + "".join(f"H{x}V{y}" for x, y in placed[1:])


def lines(
    name: str,
    curves: Sequence[Row],
    band: Sequence[Row] = (),
    *,
    x_most: float,
    x_labels: Sequence[str],
) -> Markup:
    """Return step curves over an axis from 0 to `x_most`: a `name`, a `style` and `points` (x, y) each.

    A y applies until the next point. The last curve is drawn first. `band` is an area behind them, from `low` to `high`
    at each `x`; its `middle` is a dashed line.
    """
    high = max([y for curve in curves for _, y in curve["points"]] + [each["high"] for each in band], default=0)
    scale = _Scale(ticks(0, high), _LINES_HEIGHT)
    drawn = []
    if band:
        up = _steps([(each["x"], each["high"]) for each in band], scale, x_most)
        back = [(round(_WIDE * each["x"] / x_most, 1), scale.y(each["low"])) for each in reversed(band)]
        down = f"L{back[0][0]} {back[0][1]}" + "".join(f"V{y}H{x}" for x, y in back[1:])
        drawn.append(element("path", d=f"{up}{down}Z", class_="band"))
    middle = {"name": "median", "style": "usual", "points": [(each["x"], each["middle"]) for each in band]}
    for curve in (*reversed(curves), middle):
        if points := curve["points"]:
            # With a single point it is not a line yet.
            dot = " dot" if len({x for x, _ in points}) == 1 else ""
            given = {"class_": f"line {curve['style']}{dot}", "vector_effect": "non-scaling-stroke"}
            title = element("title", one_line(curve["name"], 60))
            drawn.append(element("path", title, d=_steps(points, scale, x_most), **given))
    total = _LINES_HEIGHT + _ROOM_ABOVE + _ROOM_BELOW
    size = {"viewBox": f"0 0 {_WIDE} {total}", "width": "100%", "height": total, "preserveAspectRatio": "none"}
    ends = {0: "start", len(x_labels) - 1: "end"}
    below = _LINES_HEIGHT + _ROOM_ABOVE + 14
    labels = [
        _label(label, index / (len(x_labels) - 1), below, index, ends.get(index, "middle"))
        for index, label in enumerate(x_labels)
    ]
    return _drawing(name, total, *scale.grid(), element("svg", *drawn, **size), *labels)
