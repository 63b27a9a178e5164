"""Numbers and durations as text."""

import pytest

from flows.reporting.words import count, span


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0, "0.0 s"),
        (10, "10 s"),
        (59.6, "1 min"),
        (7805, "2 h 10 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_a_span(seconds: float, message: str) -> None:
    assert span(seconds) == message


def test_a_count() -> None:
    assert count(1, "account") == "1 account"
    assert count(0, "account") == "0 accounts"
    assert count(2000, "story", "stories") == "2,000 stories"
