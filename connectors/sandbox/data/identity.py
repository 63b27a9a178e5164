"""Reproducible random numbers, and ids of accounts from which a position can be read: no list of ids is kept."""

from hashlib import blake2b
from struct import Struct
from uuid import UUID

_FOUR = Struct("<4q")
_EIGHT = Struct("<8Q")

_POSITION_BYTES = 4


class Draw:
    """A source of random numbers and ids of accounts: pure functions of the seed and a few integers."""

    __slots__ = ("_key",)

    def __init__(self, seed: int) -> None:
        self._key = blake2b(f"gramhouse sandbox {seed}".encode(), digest_size=32).digest()

    def eight(self, topic: int, a: int = 0, b: int = 0, c: int = 0) -> tuple[int, ...]:
        """Return eight independent 64-bit numbers."""
        return _EIGHT.unpack(blake2b(_FOUR.pack(topic, a, b, c), key=self._key).digest())

    def one(self, topic: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Return one 64-bit number."""
        return self.eight(topic, a, b, c)[0]

    def tag(self, text: str, size: int) -> bytes:
        """Return a keyed digest of ``size`` bytes, which cannot be forged without the seed."""
        return blake2b(text.encode(), key=self._key, digest_size=size).digest()

    def account_id(self, position: int) -> str:
        """Return the UUID of the account at a position, with which it ends."""
        head = self.tag(f"account {position}", 16 - _POSITION_BYTES)
        return str(UUID(bytes=head + position.to_bytes(_POSITION_BYTES), version=4))

    def position(self, account_id: str) -> int:
        """Return the position of the account with this UUID; -1 if no account has it."""
        found = UUID(account_id).int % (1 << 8 * _POSITION_BYTES)
        return found if self.account_id(found) == account_id.lower() else -1
