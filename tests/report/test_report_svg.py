import re
from typing import Any

import pytest

from flows.reporting.page.charts import columns, lines, ticks
from flows.reporting.page.page import foreign, link


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 0, [0, 1]),
        (0, 1, [0, 1]),
        (0, 0.4, [0, 0.1, 0.2, 0.3, 0.4]),
        (0, 7, [0, 2, 4, 6, 8]),
        (0, 1_250, [0, 500, 1_000, 1_500]),
        (-30, 60, [-50, -25, 0, 25, 50, 75]),
        (-3, 0, [-3, -2, -1, 0]),
    ],
)
def test_an_axis_has_round_marks_that_hold_every_value(low: float, high: float, marks: list[float]) -> None:
    found = ticks(low, high)
    assert found == pytest.approx(marks)
    assert found[0] <= low <= high <= found[-1]


KINDS = {"good": "c2", "bad": "trouble"}


def _row(name: str, label: str = "", **values: float | None) -> dict[str, Any]:
    return {"name": name, "label": label, **values}


def _heights(drawing: str, style: str) -> list[float]:
    return [float(found) for found in re.findall(rf'<rect [^>]*height="([\d.]+)" class="{style}"', drawing)]


def test_columns_are_stacked_and_as_high_as_their_values() -> None:
    drawing = columns("two", [_row("one", "1", good=6, bad=2), _row("two", "2", good=3, bad=0)], KINDS)
    [full, half], [bad] = _heights(drawing, "c2"), _heights(drawing, "trouble")
    assert full == pytest.approx(2 * half, abs=0.2)
    assert bad == pytest.approx(full / 3, abs=0.1)
    top = float(re.findall(r'y="([\d.]+)" height="[\d.]+" class="trouble"', drawing)[0])
    under = float(re.findall(r'y="([\d.]+)" height="[\d.]+" class="c2"', drawing)[0])
    assert top + bad == pytest.approx(under, abs=0.2)
    assert "<title>one\ngood: 6\nbad: 2</title>" in drawing
    assert "<title>two\ngood: 3</title>" in drawing


def test_a_missing_run_is_drawn_as_a_gap_and_not_as_zero() -> None:
    drawing = columns("n", [_row("one", likes=None), _row("two", likes=0)], {"likes": "c1"})
    assert drawing.count('class="gap"') == 1
    assert "<title>one\nno run</title>" in drawing
    assert "<title>two\nlikes: 0</title>" in drawing


def test_negative_values_are_drawn_below_zero() -> None:
    drawing = columns("n", [_row("up", likes=10), _row("down", likes=-10)], {"likes": "c1"})
    up, down = (float(y) for y in re.findall(r'y="([\d.]+)" height="[\d.]+" class="c1"', drawing))
    [height, _] = _heights(drawing, "c1")
    assert down == pytest.approx(up + height, abs=0.2)


def test_every_drawing_has_a_name_for_screen_readers() -> None:
    drawings = (
        columns("a <b>", [], KINDS),
        lines("a <b>", [], x_most=1, x_labels=("0", "1")),
    )
    for drawing in drawings:
        assert 'role="img" aria-label="a &lt;b&gt;"' in drawing


def test_a_text_that_is_missing_is_not_drawn() -> None:
    assert foreign(None) == ""


def test_a_link_sends_no_referrer() -> None:
    made = link("<x>", 'https://a.example/?"><script>')
    assert made.startswith('<a href="https://a.example/?&#34;&gt;&lt;script&gt;" rel="noopener noreferrer"')
    assert made.endswith("&lt;x&gt;</a>")
