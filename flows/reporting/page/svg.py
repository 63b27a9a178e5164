"""Charts as SVG of any width: positions are percentages, so that text keeps its size on a phone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

from flows.reporting.page.html import Html, element, join

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
_ROW = 22
_THOUSAND = 1000
_UNITS = ("", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value in a chart: its name, and its style (a class of the page's style sheet)."""

    name: str
    style: str


@dataclass(frozen=True, slots=True)
class Slot:
    """One position on a chart's axis. `values` has one value per kind; None is a gap without data."""

    name: str
    label: str
    values: Sequence[float] | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """A step line through points (x, y); each y applies until the next point."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]


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


def percent(share: float) -> str:
    """Return a share of the whole as an SVG length."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _drawing(name: str, height: int, *parts: Html | Sequence[Html], style: str = "chart") -> Html:
    return element("svg", *parts, class_=style, width="100%", height=height, role="img", aria_label=name)


@dataclass(frozen=True, slots=True)
class _Scale:
    marks: Sequence[float]
    height: int

    def y(self, value: float) -> float:
        low, high = self.marks[0], self.marks[-1]
        return round(_ROOM_ABOVE + self.height * (high - value) / (high - low), 1)

    def grid(self) -> Iterator[Html]:
        for mark in self.marks:
            y = self.y(mark)
            yield element("line", x1="0", x2="100%", y1=y, y2=y, class_="grid" if mark else "axis")
            yield element("text", short(mark), x="-6", y=y + 4, text_anchor="end")


def _labels(labels: Sequence[str], indexes: int, y: float) -> Iterator[Html]:
    """Yield the labels that fit. On a narrow screen the style sheet hides every second one."""
    shown: list[int] = []
    for index, label in enumerate(labels):
        if label and (not shown or index - shown[-1] >= indexes / _LABELS):
            shown.append(index)
    for number, index in enumerate(shown):
        middle = percent((index + 0.5) / indexes)
        yield element("text", labels[index], x=middle, y=y, text_anchor="middle", class_="alt" if number % 2 else None)


def _tooltip(slot: Slot, kinds: Sequence[Kind]) -> Html:
    if slot.values is None:
        lines = ["no run"]
    else:
        pairs = zip(kinds, slot.values, strict=True)
        lines = [f"{kind.name}: {_number(value)}" for kind, value in pairs if value or len(kinds) == 1]
    return element("title", "\n".join([slot.name, *lines, *filter(None, [slot.note])]))


def columns(name: str, kinds: Sequence[Kind], slots: Sequence[Slot], *, height: int = _HEIGHT) -> Html:
    """Return stacked columns, one per slot; negative values are below the zero line. A gap is hatched.

    A slot with a note has a mark above it, so that colour is not the only indication.
    """
    filled = [slot.values for slot in slots if slot.values is not None]
    high = max((sum(v for v in values if v > 0) for values in filled), default=0)
    low = min((sum(v for v in values if v < 0) for values in filled), default=0)
    scale = _Scale(ticks(low, high), height)
    indexes = max(len(slots), _PLACES)
    step = 1 / indexes
    drawn = []
    for index, slot in enumerate(slots):
        at = {"x": percent((index + (1 - _FULL) / 2) * step), "width": percent(_FULL * step)}
        whole = {"x": percent(index * step), "width": percent(step), "y": _ROOM_ABOVE, "height": height}
        parts = [_tooltip(slot, kinds), element("rect", **whole, class_="gap" if slot.values is None else "hit")]
        above = below = 0.0
        for kind, value in zip(kinds, slot.values or (), strict=slot.values is not None):
            if not value:
                continue
            begin = above if value > 0 else below
            top, bottom = scale.y(max(begin, begin + value)), scale.y(min(begin, begin + value))
            # Always visible: users look for the one failure among 100,000 scans.
            thick = round(max(bottom - top, 1.5), 1)
            parts.append(element("rect", **at, y=round(bottom - thick, 1), height=thick, class_=kind.style))
            above, below = (above + value, below) if value > 0 else (above, below + value)
        if slot.note:
            mark = percent((index + 0.5) * step)
            parts.append(element("text", "!", x=mark, y=scale.y(above) - 2, text_anchor="middle", class_="mark"))
        drawn.append(element("g", parts))
    labels = _labels([slot.label for slot in slots], indexes, height + _ROOM_ABOVE + 14)
    return _drawing(name, height + _ROOM_ABOVE + _ROOM_BELOW, list(scale.grid()), drawn, list(labels))


def _steps(points: Sequence[tuple[float, float]], scale: _Scale, x_most: float) -> str:
    placed = [(round(_WIDE * x / x_most, 1), scale.y(y)) for x, y in points]
    return f"M{placed[0][0]} {placed[0][1]}" + "".join(f"H{x}V{y}" for x, y in placed[1:])


def lines(
    name: str,
    curves: Sequence[Curve],
    *,
    x_most: float,
    x_labels: Sequence[str],
    band: Sequence[tuple[float, float, float]] = (),
) -> Html:
    """Return step curves over an axis from 0 to `x_most`; `band` is an area of (x, low, high) behind them."""
    high = max([y for curve in curves for _, y in curve.points] + [top for _, _, top in band], default=0)
    scale = _Scale(ticks(0, high), _LINES_HEIGHT)
    drawn = []
    if band:
        up = _steps([(x, top) for x, _, top in band], scale, x_most)
        back = [(round(_WIDE * x / x_most, 1), scale.y(low)) for x, low, _ in reversed(band)]
        down = f"L{back[0][0]} {back[0][1]}" + "".join(f"V{y}H{x}" for x, y in back[1:])
        drawn.append(element("path", d=f"{up}{down}Z", class_="band"))
    for curve in curves:
        if curve.points:
            path = _steps(curve.points, scale, x_most)
            title = element("title", curve.name)
            # With a single point it is not a line yet.
            dot = " dot" if len({x for x, _ in curve.points}) == 1 else ""
            drawn.append(
                element("path", title, d=path, class_=f"line {curve.style}{dot}", vector_effect="non-scaling-stroke")
            )
    total = _LINES_HEIGHT + _ROOM_ABOVE + _ROOM_BELOW
    stretched = element(
        "svg", drawn, viewBox=f"0 0 {_WIDE} {total}", width="100%", height=total, preserveAspectRatio="none"
    )
    labels = [
        element(
            "text",
            label,
            x=percent(index / (len(x_labels) - 1)),
            y=_LINES_HEIGHT + _ROOM_ABOVE + 14,
            text_anchor="start" if not index else "end" if index == len(x_labels) - 1 else "middle",
            class_="alt" if index % 2 else None,
        )
        for index, label in enumerate(x_labels)
    ]
    return _drawing(name, total, list(scale.grid()), stretched, labels)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a heat map: its name and style; `few`: its value is based on little data."""

    name: str
    style: str
    few: bool = False


def heat(name: str, rows: Sequence[str], heads: Sequence[str], cells: Sequence[Sequence[Cell | None]]) -> Html:
    """Return a heat map; cells without data (None) are hatched."""
    wide = 1 / len(heads)
    drawn = []
    for line, (row, some) in enumerate(zip(rows, cells, strict=True)):
        y = line * _ROW
        drawn.append(element("text", row, x="-6", y=y + 15, text_anchor="end"))
        for index, cell in enumerate(some):
            at = {"x": percent(index * wide), "width": percent(wide), "y": y, "height": _ROW}
            style = "gap" if cell is None else f"cell {cell.style}" + (" few" if cell.few else "")
            title = element("title", cell.name) if cell else None
            drawn.append(element("rect", title, **at, class_=style))
    below = len(rows) * _ROW
    return _drawing(name, below + _ROOM_BELOW, drawn, list(_labels(heads, len(heads), below + 14)), style="chart heat")


def spark(name: str, values: Sequence[float]) -> Html:
    """Return a line chart that is small enough for a table's cell."""
    low, high = min([0, *values]), max([0, *values])
    points = [
        (round(100 * index / max(len(values) - 1, 1), 1), round(22 - 20 * (value - low) / ((high - low) or 1), 1))
        for index, value in enumerate(values)
    ]
    path = "M" + "L".join(f"{x} {y}" for x, y in points) if points else None
    line = element("path", d=path, class_="line c1", vector_effect="non-scaling-stroke")
    return element(
        "svg", line, class_="spark", viewBox="0 0 100 24", preserveAspectRatio="none", role="img", aria_label=name
    )


def bar(share: float, style: str = "c1") -> Html:
    """Return a bar for a table's cell; `share` is from 0 to 1."""
    width = percent(min(max(share, 0.0), 1.0))
    drawn = element("rect", x="0", y="0", width=width, height="100%", class_=style)
    return element("svg", drawn, class_="bar", aria_hidden="true")


def legend(kinds: Sequence[Kind]) -> Html:
    """Return the legend of a chart."""
    swatch = {"width": 12, "height": 12, "aria_hidden": "true"}
    return element(
        "ul",
        [
            element(
                "li", element("svg", element("rect", width="12", height="12", class_=kind.style), **swatch), kind.name
            )
            for kind in kinds
        ],
        class_="legend",
    )


def patterns() -> Html:
    """Return the hatching patterns that styles refer to; the page must contain them once."""

    def hatching(name: str, angle: int) -> Html:
        stroke = element("line", x1="0", y1="0", x2="0", y2="6", class_="stripe")
        ground = element("rect", width="6", height="6", class_="ground")
        attributes = {"patternUnits": "userSpaceOnUse", "patternTransform": f"rotate({angle})"}
        return element("pattern", ground, stroke, id=name, width="6", height="6", class_=name, **attributes)

    hatched = [hatching(name, angle) for name, angle in (("nothing", 45), ("trouble", -45), ("waiting", 90))]
    return join(
        [element("svg", element("defs", hatched), class_="patterns", width="0", height="0", aria_hidden="true")]
    )
