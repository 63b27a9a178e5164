"""The sandbox's calendar: day n is a fixed date plus n days, independent of the wall clock."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from time import gmtime

DAY = 86_400
FIRST_DAY = int(datetime(2025, 3, 1, 2, 0, tzinfo=UTC).timestamp())


def instant(day: int) -> int:
    """Return the time of a day in epoch seconds: 02:00 UTC of its date."""
    return FIRST_DAY + day * DAY


@lru_cache(maxsize=65_536)
def _minute(minutes: int) -> str:
    year, month, day, hour, minute, *_ = gmtime(minutes * 60)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:"


def iso(seconds: int) -> str:
    """Return epoch seconds as text such as ``2017-08-31T18:10:00``, in UTC without an offset."""
    minutes, rest = divmod(seconds, 60)
    return f"{_minute(minutes)}{rest:02d}"
