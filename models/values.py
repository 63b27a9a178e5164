"""Decodes media records, and reads their values as texts, counts, numbers, flags and times: the only rule. No IO.

docs/mapping.md lists the forms.

Each value is read by itself. Any other value is none, and its field keeps it as it is.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from models.mapping import Reading

LOST = "\N{REPLACEMENT CHARACTER}"

# Records that are nested deeper are rejected: values are read recursively.
_DEEPEST = 200

REASONS = {
    "no_id": "The item has no id that gramhouse knows.",
    "inexact_id": "The id of the item is no text and no whole number, or has lost a character.",
    "not_an_object": "The item is not a JSON object.",
    "not_json": "The item is not JSON.",
    "too_deep": f"The item is nested deeper than {_DEEPEST} levels.",
    "number_out_of_range": "The item contains a number that is out of the range of a double.",
}


class RejectedItem(ValueError):  # noqa: N818 - named after the condition
    """A record that cannot become an item; `code` is a key of REASONS, and the message its text."""

    def __init__(self, code: str) -> None:
        """Create it with the text of its code."""
        super().__init__(REASONS[code])
        self.code = code


_parse = msgspec.json.Decoder().decode

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What a decoder raises for a text that is not JSON, or not as expected."""


def decode_record(raw: bytes) -> dict[str, Any]:
    """Return the members of a record; of duplicate keys the last one counts. Raises RejectedItem."""
    try:
        value = _parse(raw)
    except RecursionError:
        raise RejectedItem("too_deep") from None
    except msgspec.ValidationError:
        raise RejectedItem("number_out_of_range") from None
    except (msgspec.DecodeError, UnicodeError):
        raise RejectedItem("not_json") from None
    if not isinstance(value, dict):
        raise RejectedItem("not_an_object")
    # Python 3.13 parses any depth.
    if may_be_too_deep(raw) and _is_deeper(value, _DEEPEST):
        raise RejectedItem("too_deep")
    return value


def may_be_too_deep(raw: bytes) -> bool:
    """Return whether a record has so many brackets that only decoding all of it shows whether it is nested too deep."""
    return raw.count(b"[") + raw.count(b"{") > _DEEPEST


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inner is not None and (levels == 0 or any(_is_deeper(each, levels - 1) for each in inner))


# The range of times that both Python and DuckDB support in every zone.
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 29, 23, 59, 59, 999_999, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = r"[+-](?:[01]\d|2[0-3])"
_ISO_8601 = re.compile(
    r"\d{4}(-)?\d\d(?(1)-)\d\d(?:[Tt ](?:[01]\d|2[0-3])(?(1):)\d\d(?:(?(1):)\d\d(?:[.,]\d{1,9})?)?"
    rf"(?P<zone> ?(?:[Zz]|UTC|GMT|{_OFFSET}(?::?[0-5]\d)?))?)?",
    re.ASCII,
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_RFC_2822 = re.compile(
    rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)}), *)?\d\d? +(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    rf" +[1-9]\d{{3}} +\d\d:\d\d(?::\d\d)? +(?:UTC?|GMT|Z|{_OFFSET}[0-5]\d)",
    re.ASCII | re.IGNORECASE,
)

# They are listed, because `fromisoformat` accepts +03:60.
_UTC_ZONES = frozenset({"Z", "+0000", "+00:00"})

# Seconds, milliseconds or microseconds since 1970. With so many digits they are of the years 2001 to 2286; other
# numbers may be years, dates or identifiers.
_SINCE_1970 = re.compile(r"([1-9](?:\d{9}|\d{12}|\d{15}))(?:\.(\d+))?", re.ASCII)


def time_of(value: object) -> datetime | None:
    """Return a JSON value as a time in UTC; None if it is not a time. Digits beyond microseconds are dropped."""
    if type(value) not in (str, int, float):
        return None
    text = value if isinstance(value, str) else repr(value).removesuffix(".0")
    try:
        # The most frequent form is read in a quarter of the time.
        is_frequent = text[4:17:3] == "--T::" and text[19:] in _UTC_ZONES and text[11:13] < "24"
        found = datetime.fromisoformat(text) if is_frequent else _read_time(text.strip(" \t\r\n"))
    except (ValueError, OverflowError):
        return None
    return found if FIRST <= found <= LAST else None


def _read_time(text: str) -> datetime:
    """Return the time in a text. Raises ValueError or OverflowError if it is none, or one that does not exist."""
    if match := _ISO_8601.fullmatch(text):
        zone = match["zone"] or ""
        found = datetime.fromisoformat(text.removesuffix(zone) + ("Z" if zone.strip().isalpha() else zone.strip()))
    elif match := _RFC_2822.fullmatch(text):
        found = parsedate_to_datetime(text)
        if match["weekday"] and match["weekday"].lower() != _WEEKDAYS[found.weekday()]:
            raise ValueError(text)
    elif match := _SINCE_1970.fullmatch(text):
        # With their decimals, seconds have as many digits as microseconds.
        found = _EPOCH + timedelta(microseconds=int((match[1] + (match[2] or "")).ljust(16, "0")[:16]))
    else:
        raise ValueError(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


# Texts of this form are times for Arrow and DuckDB, too.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d(?::?\d\d)?)", re.ASCII)


def is_instant(text: str) -> bool:
    """Return whether a text is a time with a zone: a field with only such values gets a column of times."""
    return _INSTANT.fullmatch(text) is not None and time_of(text) is not None


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
    if isinstance(value, (int, float)):
        return repr(exact(value) if isinstance(value, float) else value).lower()
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
