"""Reads JSON values as times: the only rule, for columns of times and for the order of posts in a scan. No IO.

Each value is read by itself. The forms are listed in docs/mapping.md; a time without a zone is in UTC. Any other value
is not a time, and its field keeps it as it is.
"""

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

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

FREQUENT_SECONDS = range(10**9, 10**10)


def time_of(value: object) -> datetime | None:
    """Return a JSON value as a time in UTC; None if it is not a time. Digits beyond microseconds are dropped."""
    if isinstance(value, str):
        text = value
    elif type(value) is int and value in FREQUENT_SECONDS:
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
