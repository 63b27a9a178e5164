"""Reproducible random numbers: pure functions of the seed and a few integers."""

from hashlib import blake2b
from struct import Struct

_FOUR = Struct("<4q")
_EIGHT = Struct("<8Q")


class Draw:
    """A source of seeded random numbers; the same arguments always return the same numbers."""

    __slots__ = ("_key",)

    def __init__(self, seed: int) -> None:
        self._key = blake2b(f"gramhouse sandbox {seed}".encode(), digest_size=32).digest()

    def eight(self, topic: int, a: int = 0, b: int = 0, c: int = 0) -> tuple[int, ...]:
        """Return eight independent 64-bit numbers."""
        return _EIGHT.unpack(blake2b(_FOUR.pack(topic, a, b, c), key=self._key).digest())

    def one(self, topic: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Return one 64-bit number."""
        return self.eight(topic, a, b, c)[0]

    def tag(self, data: bytes, size: int) -> bytes:
        """Return a keyed digest of ``size`` bytes, which cannot be forged without the seed."""
        return blake2b(data, key=self._key, digest_size=size).digest()
