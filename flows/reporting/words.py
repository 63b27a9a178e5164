"""Numbers, spans of time and what a run changed, in words."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from models.runs import INCOMPLETE, RunWarning, Tally

if TYPE_CHECKING:
    # Its module brings SQLAlchemy, which a line of words does without.
    from connectors.warehouse.merge.run_counts import MergeStats


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Say how many of something there are: `1 account`, `2,000 accounts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def span(seconds: float) -> str:
    """Say how long: `0.9 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = timedelta(seconds=round(seconds))
    hours, rest = divmod(whole.seconds, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(whole.days, "d"), (hours, "h"), (minutes, "min"), (left, "s")]
    shown = [f"{value} {unit}" for value, unit in parts if value]
    return " ".join(shown[:2]) or "0 s"


def shortfall(tally: Tally, warnings: Iterable[RunWarning]) -> str:
    """Say what keeps a run from being complete: `3 scans failed, 102 scans deferred, 30 accounts missing`."""
    scans = [f"{count(tally[kind], 'scan')} {kind.replace('_', ' ')}" for kind in INCOMPLETE if tally[kind]]
    serious = [f"{each.count:,} {each.code.replace('_', ' ')}" for each in warnings if each.makes_partial]
    return ", ".join(scans + serious)


def megabytes(size: int) -> str:
    """Say a file's size, bytes, in megabytes."""
    return f"{size / 1e6:,.1f} MB"


def changes(media: "MergeStats") -> str:
    """Say what became of the media."""
    if media.untouched:
        return "nothing changed"
    numbers = {
        "new": media.added,
        "changed": media.changed,
        "removed": media.removed,
        "expired": media.expired,
        "returned": media.returned,
    }
    return ", ".join(f"{number:,} {word}" for word, number in numbers.items() if number)
