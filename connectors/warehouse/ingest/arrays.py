"""Creates Arrow arrays from Python values. `pyarrow.array` would import pandas if it is installed, which takes 1 s."""

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from models.times import FIRST, FREQUENT_SECONDS, LAST, is_instant, time_of

# The type codes of `array.array`.
_NUMBERS = {pa.int32(): "i", pa.int64(): "q"}

# Types of values that are joined without a conversion.
_BYTES = {bytes, msgspec.Raw}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = pa.timestamp("us", "UTC")

# pyarrow also reads an hour without minutes.
_SHORTEST_WITH_MINUTES = len("2026-01-02T03:04:05Z")


def instants_of(array: Any) -> list[datetime]:  # noqa: ANN401 - pyarrow has no types
    """Return an Arrow array of timestamps without nulls as datetimes in UTC.

    `to_pylist` would look for pandas, and fail if neither pandas nor numpy is installed.
    """
    microseconds = pc.cast(pc.cast(array, pa.timestamp("us", tz="UTC")), pa.int64())
    return [_EPOCH + timedelta(microseconds=one) for one in microseconds.to_pylist()]


def array_of_instants(instants: Iterable[datetime]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return an Arrow array of timestamps in UTC."""
    return array_of(list(map(_microseconds, instants)), pa.int64()).cast(_TIME)


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def times_of(values: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return an array of texts, numbers or booleans as timestamps in UTC, null where `time_of` finds no time."""
    if (found := _frequent_times(values)) is not None:
        return found
    times = map(time_of, values.to_pylist())
    return array_of([None if at is None else _microseconds(at) for at in times], pa.int64()).cast(_TIME)


def are_instants(texts: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    """Return whether all texts of an array are times with a zone, as `is_instant` says."""
    return _frequent_times(texts) is not None or all(map(is_instant, texts.drop_null().to_pylist()))


def _frequent_times(values: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the same without Python's lock, if pyarrow reads all values as `time_of` does; otherwise None."""
    if pa.types.is_integer(values.type):
        least, most = (each.as_py() or 0 for each in pc.min_max(values).values())
        is_frequent = least in FREQUENT_SECONDS and most in FREQUENT_SECONDS
        return values.cast(pa.timestamp("s", "UTC")).cast(_TIME) if is_frequent else None
    if not pa.types.is_string(values.type):
        return None
    shortest = pc.min(pc.binary_length(values)).as_py()
    if shortest is None or shortest < _SHORTEST_WITH_MINUTES:
        return None
    try:
        found = values.cast(_TIME)
    except pa.ArrowInvalid:
        return None
    least, most = (each.as_py() for each in pc.min_max(found.cast(pa.int64())).values())
    return found if _microseconds(FIRST) <= least and most <= _microseconds(LAST) else None


def _bits(flags: Iterable[bool]) -> Any:  # noqa: ANN401 - pyarrow has no types
    digits = "".join("1" if flag else "0" for flag in flags)
    return pa.py_buffer(int(digits[::-1] or "0", 2).to_bytes((len(digits) + 7) // 8, "little"))


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def array_of(values: Sequence[Any], arrow_type: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return an Arrow array of this type: integers, booleans, text or bytes.

    None becomes null. Raises OverflowError for integers out of the type's range, TypeError for values of another type.
    """
    if not values:
        # Arrow warns on standard error about an empty `array.array`, whose buffer is not aligned.
        return pa.nulls(0, arrow_type)
    validity = _bits(value is not None for value in values) if None in values else None
    if arrow_type in _NUMBERS:
        numbers = values if validity is None else [0 if value is None else value for value in values]
        buffers = [pa.py_buffer(array(_NUMBERS[arrow_type], numbers))]
    elif pa.types.is_boolean(arrow_type):
        buffers = [_bits(bool(value) for value in values)]
    else:
        texts = values if {*map(type, values)} <= _BYTES else [_bytes(value) for value in values]
        offsets = array("i", accumulate(map(len, texts), initial=0))
        buffers = [pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(arrow_type, len(values), [validity, *buffers])
