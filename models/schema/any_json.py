"""Parses any JSON text that is not nested too deep: also integers that are too long for other parsers. No IO."""

import json
import math
from itertools import chain
from typing import Any

from models.schema.json_types import Json, WideNumber

# Integers of this many digits or more are kept as text: Python refuses to convert more than 4,300 digits.
_MOST_DIGITS = 4000

# Values are processed recursively, and Python limits the depth of recursion.
_MOST_NESTED = 200


def _first(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _number(text: str) -> float | WideNumber:
    value = float(text)
    return value if math.isfinite(value) else WideNumber(text)


def _whole(text: str) -> int | WideNumber:
    return int(text) if len(text) < _MOST_DIGITS else WideNumber(text)


# NaN and Infinity are not JSON: `int` raises ValueError for them.
_parse = json.JSONDecoder(object_pairs_hook=_first, parse_float=_number, parse_int=_whole, parse_constant=int).decode


def parse(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a JSON text; of duplicate keys, the first one counts.

    Raises ValueError if it is not JSON, and RecursionError if it is nested deeper than 200 levels.
    """
    value: Json = _parse(text)
    if _is_too_deep(value):
        raise RecursionError
    return value


def _is_too_deep(value: Json) -> bool:
    level = [value]
    for _ in range(_MOST_NESTED):
        nested = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = list(chain.from_iterable(nested))
        if not level:
            return False
    return True
