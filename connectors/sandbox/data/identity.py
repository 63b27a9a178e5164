"""Reproducible random numbers, and ids from which a position can be read: no list of ids must be kept in memory."""

from hashlib import blake2b
from struct import Struct
from uuid import UUID

_FOUR = Struct("<4q")
_EIGHT = Struct("<8Q")

_PUBLIC_ID = 1
_POSITION_BYTES = 4
_FIRST_ITEM = 10**16
_ITEM_BITS = 53
_CHILD_BITS = 4
_SURFACE_BITS = 1
_SEQUENCE_BITS = 25
SEQUENCES = 1 << _SEQUENCE_BITS

# Odd, so that a product has each remainder once: the order of ids says nothing about that of items.
_FACTOR = 0x9E3779B97F4A7C15


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

    def public_id(self, position: int) -> str:
        """Return the public id of an account: 12 to 16 letters and digits."""
        number = self.one(_PUBLIC_ID, position)
        return f"{number:016x}"[: 12 + number % 5]


def item_number(position: int, surface: int, sequence: int) -> int:
    """Return the number of an item; the next fifteen numbers are for its children."""
    return ((position << _SURFACE_BITS | surface) << _SEQUENCE_BITS | sequence) << _CHILD_BITS


def item_id(number: int) -> int:
    """Return the id of an item's or a child's number: an integer of 17 digits."""
    return _FIRST_ITEM + number * _FACTOR % (1 << _ITEM_BITS)
