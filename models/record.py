"""Decodes a media record, or says why it cannot become an item, and reads the values of mapped columns. No IO.

docs/mapping.md says how each type is read.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any

import msgspec

from models.mapping import Reading
from models.times import time_of

# Records that are nested deeper are rejected: values are read recursively.
_DEEPEST = 200

REASONS = {
    "no_id": "The item has no id that gramhouse knows.",
    "inexact_id": "The id of the item is no text and no whole number: it is written with a fraction or an exponent.",
    "not_an_object": "The item is not a JSON object.",
    "not_json": "The item is not JSON.",
    "duplicate_key": "The item contains a duplicate key.",
    "too_deep": f"The item is nested deeper than {_DEEPEST} levels.",
    "lone_surrogate": "The item contains half of a character, an unpaired surrogate.",
    "number_out_of_range": "The item contains a number that is out of the range of a double.",
}


class RejectedItem(ValueError):  # noqa: N818 - named after the condition
    """A record that cannot become an item; `code` is a key of REASONS, and the message its text."""

    def __init__(self, code: str) -> None:
        """Create it with the text of its code."""
        super().__init__(REASONS[code])
        self.code = code


_parse = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

# Python refuses to convert more than 4,300 digits; longer integers are kept as they are written.
_MOST_DIGITS = 4000


def decode_record(raw: bytes) -> dict[str, Any]:
    """Return the members of a record. An integer of 4,000 digits or more is a msgspec.Raw. Raises RejectedItem.

    JSON does not say which of two duplicate keys counts (RFC 8259), so a record with such keys has no certain value.
    """
    try:
        value = _parse(raw)
        text = _encode(value)
        # The parser takes the last of duplicate keys: then a colon is missing. One that is an escape may hide it.
        if text != raw and (text.count(b":") != raw.count(b":") or b"\\u003" in raw):
            _decode_strictly(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _decode_strictly(raw)
    if not isinstance(value, dict):
        raise RejectedItem("not_an_object")
    # Python 3.13 parses any depth.
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST:
        check_depth(value, 0)
    return value


def _decode_strictly(raw: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        value = _strict(raw.decode())
        _encode(value)
    except RecursionError:
        raise RejectedItem("too_deep") from None
    except UnicodeEncodeError:
        raise RejectedItem("lone_surrogate") from None
    except RejectedItem:
        raise
    except ValueError:
        raise RejectedItem("not_json") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RejectedItem("duplicate_key")
    return found


def _double(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise RejectedItem("number_out_of_range")
    return value


def _integer(text: str) -> int | msgspec.Raw:
    return int(text) if len(text) < _MOST_DIGITS else msgspec.Raw(text.encode())


# NaN and Infinity are not JSON: `int` raises ValueError for them.
_strict = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_double, parse_int=_integer, parse_constant=int
).decode


def check_depth(value: dict[str, Any] | list[Any], above: int) -> None:
    """Raise RejectedItem if a value, which is below this many levels of its record, is nested too deep."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST - above):
        inner = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inner if isinstance(each, (dict, list))]
        if not level:
            return
    raise RejectedItem("too_deep")


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
