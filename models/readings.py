"""Reads JSON values as the values of mapped columns: what docs/mapping.md says of each type. No IO."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal

import msgspec

from models.mapping import Reading
from models.times import time_of

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
    # An integer of thousands of digits.
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else None


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
