"""Creates Arrow arrays from Python values. `pyarrow.array` would import pandas if it is installed, which takes 1 s."""

from array import array
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

# The type codes of `array.array`.
_NUMBERS = {pa.int32(): "i", pa.int64(): "q", pa.float64(): "d"}

# Types of values that are joined without a conversion.
_BYTES = {bytes, msgspec.Raw}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instants_of(array: Any) -> list[datetime]:  # noqa: ANN401 - pyarrow has no types
    """Return an Arrow array of timestamps without nulls as datetimes in UTC.

    `to_pylist` would look for pandas, and fail if neither pandas nor numpy is installed.
    """
    microseconds = pc.cast(pc.cast(array, pa.timestamp("us", tz="UTC")), pa.int64())
    return [_EPOCH + timedelta(microseconds=one) for one in microseconds.to_pylist()]


def _bits(flags: Iterable[bool]) -> Any:  # noqa: ANN401 - pyarrow has no types
    digits = "".join("1" if flag else "0" for flag in flags)
    return pa.py_buffer(int(digits[::-1] or "0", 2).to_bytes((len(digits) + 7) // 8, "little"))


def _offsets(lengths: Iterable[int]) -> Any:  # noqa: ANN401 - pyarrow has no types
    return pa.py_buffer(array("i", accumulate(lengths, initial=0)))


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def array_of(values: Sequence[Any], arrow_type: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return an Arrow array of this type: integers, doubles, booleans, text, bytes, or lists of these.

    None becomes null. Raises OverflowError for integers out of the type's range, TypeError for values of another type.
    """
    if not values:
        # Arrow warns on standard error about an empty `array.array`, whose buffer is not aligned.
        return pa.nulls(0, arrow_type)
    validity = _bits(value is not None for value in values) if None in values else None
    children: list[Any] | None = None
    if arrow_type in _NUMBERS:
        numbers = values if validity is None else [0 if value is None else value for value in values]
        buffers = [pa.py_buffer(array(_NUMBERS[arrow_type], numbers))]
    elif pa.types.is_boolean(arrow_type):
        buffers = [_bits(bool(value) for value in values)]
    elif pa.types.is_list(arrow_type):
        lists = [value or () for value in values]
        buffers = [_offsets(map(len, lists))]
        children = [array_of(list(chain.from_iterable(lists)), arrow_type.value_type)]
    else:
        texts = values if {*map(type, values)} <= _BYTES else [_bytes(value) for value in values]
        buffers = [_offsets(map(len, texts)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(arrow_type, len(values), [validity, *buffers], children=children)
