"""Reads JSON values as texts, counts, numbers, flags and times: the only rule. docs/mapping.md lists the forms. No IO.

Each value is read by itself. Any other value is none, and its field keeps it as it is.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime

from models.mapping import Reading

# A time with a zone: a field whose values all have this form gets a column of times, whatever its name.
_WITH_ZONE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d(?::?\d\d)?)", re.ASCII)

# The range of times that both Python and DuckDB support in every zone.
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 29, 23, 59, 59, 999_999, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_OFFSET = r"[+-](?:[01]\d|2[0-3])"
_ISO_8601 = re.compile(
    r"\d{4}(-)?\d\d(?(1)-)\d\d(?:[Tt ](?:[01]\d|2[0-3])(?(1):)\d\d(?:(?(1):)\d\d(?:[.,]\d{1,9})?)?"
    rf"(?P<zone> ?(?:[Zz]|UTC|GMT|{_OFFSET}(?::?[0-5]\d)?))?)?",
    re.ASCII,
)
_RFC_2822 = re.compile(
    rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)}), *)?\d\d? +(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    rf" +[1-9]\d{{3}} +\d\d:\d\d(?::\d\d)? +(?:UTC?|GMT|Z|{_OFFSET}[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)

# Seconds, milliseconds and microseconds since 1970, with the number of decimals to a microsecond, by the number of
# digits. These lengths are the years 2001 to 2286; other numbers may be years, dates or identifiers.
_SINCE_1970 = re.compile(r"([1-9]\d*)(?:\.(\d+))?", re.ASCII)
_DECIMALS = {10: 6, 13: 3, 16: 0}
_TOO_LARGE = 10**16

# As they follow a time of 19 characters. They are listed, because `fromisoformat` accepts +03:60.
_UTC_ZONES = frozenset({"Z", "+0000", "+00:00"})

_FREQUENT_SECONDS = range(10**9, 10**10)


def time_of(value: object) -> datetime | None:
    """Return a JSON value as a time in UTC; None if it is not a time. Digits beyond microseconds are dropped."""
    if isinstance(value, str):
        text = value
    elif type(value) is int and value in _FREQUENT_SECONDS:
        return datetime.fromtimestamp(value, UTC)
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _TOO_LARGE:
        text = repr(value).removesuffix(".0")
    else:
        return None
    try:
        # The most frequent forms are read in a quarter of the time.
        is_frequent = text[4:17:3] == "--T::" and text[19:] in _UTC_ZONES and text[11:13] < "24"
        found = datetime.fromisoformat(text) if is_frequent else _read(text.strip(" \t\r\n"))
    except (ValueError, OverflowError):
        return None
    return found if found is not None and FIRST <= found <= LAST else None


def is_instant(text: str) -> bool:
    """Return whether a text is a time with a zone, to the microsecond at most."""
    return _WITH_ZONE.fullmatch(text) is not None and time_of(text) is not None


def _read(text: str) -> datetime | None:
    """Return the time in a text, if any. Raises ValueError or OverflowError for a time that does not exist."""
    if match := _ISO_8601.fullmatch(text):
        zone = (match["zone"] or "").strip()
        return _in_utc(
            datetime.fromisoformat(text.removesuffix(match["zone"] or "") + ("Z" if zone.isalpha() else zone))
        )
    if match := _RFC_2822.fullmatch(text):
        found = parsedate_to_datetime(text)
        is_real = match["weekday"] is None or match["weekday"].lower() == _WEEKDAYS[found.weekday()]
        return _in_utc(found) if is_real else None
    if (match := _SINCE_1970.fullmatch(text)) and (decimals := _DECIMALS.get(len(match[1]))) is not None:
        fraction = (match[2] or "").ljust(decimals, "0")[:decimals] or "0"
        return _EPOCH + timedelta(microseconds=int(match[1]) * 10**decimals + int(fraction))
    return None


def _in_utc(found: datetime) -> datetime:
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


Scalar = str | int | float | bool

BIGINT = range(-(2**63), 2**63)

_WHOLE = re.compile(r"-?[0-9]{1,19}(?:\.0+)?", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def exact(value: float) -> int | float:
    """Return a number by its value: an integer if it is whole, however it is written."""
    return int(Decimal(repr(value))) if value.is_integer() else value


def as_text(value: object) -> str | None:
    """Return a text, a number or a boolean as text, the same for equal numbers; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(exact(value) if isinstance(value, float) else value)
    return None


def as_count(value: object) -> int | None:
    """Return a whole number of 64 bits, also if it is text or has a fraction of zeros; None for anything else."""
    if type(value) is int:
        number = value
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    elif isinstance(value, str) and _WHOLE.fullmatch(value):
        number = int(value.partition(".")[0])
    else:
        return None
    return number if number in BIGINT else None


def _as_number(value: object) -> float | None:
    text = None if isinstance(value, bool) else as_text(value)
    number = float(text) if text is not None and _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def _as_flag(value: object) -> bool | None:
    return _FLAGS.get((as_text(value) or "").lower())


READ: Mapping[Reading, Callable[[object], Scalar | datetime | None]] = {
    Reading.TEXT: as_text,
    Reading.COUNT: as_count,
    Reading.NUMBER: _as_number,
    Reading.FLAG: _as_flag,
    Reading.TIMESTAMP: time_of,
}
