"""Correlation ids: 26 characters, unique in a server's life, a counter under a dress (API 1)."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_TAIL = 8


def crockford(number: int, length: int) -> str:
    """Return the low ``5 * length`` bits of a number in Crockford's base 32."""
    return "".join(_ALPHABET[(number >> (5 * index)) & 31] for index in reversed(range(length)))


class CorrelationIds:
    """An endless supply of ids: ten characters of start time, eight of seed, eight of counter."""

    def __init__(self, seed: int, started: float) -> None:
        digest = int.from_bytes(blake2b(f"correlation {seed}".encode(), digest_size=8).digest())
        self._head = crockford(int(started * 1000), 10) + crockford(digest, 26 - 10 - _TAIL)
        self._numbers = count(1)

    def new(self) -> str:
        """Return the next id; 2**40 of them differ."""
        n = next(self._numbers)
        pairs = _PAIRS
        head = self._head
        return f"{head}{pairs[n >> 30 & 1023]}{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}"
