"""Reproducible random numbers, and reversible ids: no list of ids must be kept in memory."""

from hashlib import blake2b
from struct import Struct
from uuid import UUID

_FOUR = Struct("<4q")
_EIGHT = Struct("<8Q")

_TOPIC = 1
_ACCOUNT_BITS = 48
_ACCOUNT_SHIFT = 128 - _ACCOUNT_BITS
_ITEM_BITS = 53
_FIRST_ITEM = 10**16
_CHILD_BITS = 4
_SURFACE_BITS = 1
_SEQUENCE_BITS = 25
SEQUENCES = 1 << _SEQUENCE_BITS


class Draw:
    """A source of random numbers: pure functions of the seed and a few integers."""

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


class _Shuffle:
    """A bijection on the numbers of ``bits`` bits, determined by the seed."""

    def __init__(self, draw: Draw, bits: int) -> None:
        mask, first, second, *_ = draw.eight(_TOPIC, bits)
        self._modulus = 1 << bits
        self._mask = mask % self._modulus
        self._factors = first | 1, second | 1
        self._inverses = pow(first | 1, -1, self._modulus), pow(second | 1, -1, self._modulus)
        self._shift = (bits + 1) // 2

    def forth(self, number: int) -> int:
        """Return the image of a number."""
        first, second = self._factors
        x = (number ^ self._mask) * first % self._modulus
        return (x ^ x >> self._shift) * second % self._modulus

    def back(self, number: int) -> int:
        """Return the number whose image this is."""
        first, second = self._inverses
        x = number * second % self._modulus
        return (x ^ x >> self._shift) * first % self._modulus ^ self._mask


class Identity:
    """Ids of accounts (UUIDs), ids of media items and their children (17 digits), and public ids."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._accounts = _Shuffle(draw, _ACCOUNT_BITS)
        self._items = _Shuffle(draw, _ITEM_BITS)

    def account_id(self, position: int) -> str:
        """Return the UUID of the account at a position."""
        head = self._accounts.forth(position) << _ACCOUNT_SHIFT
        rest = int.from_bytes(self._draw.tag(b"account %d" % position, _ACCOUNT_SHIFT // 8))
        return str(UUID(int=head | rest, version=4))

    def position(self, account_id: str) -> int:
        """Return the position of the account with this UUID; -1 if no account has it."""
        found = self._accounts.back(UUID(account_id).int >> _ACCOUNT_SHIFT)
        return found if self.account_id(found) == account_id.lower() else -1

    def public_id(self, position: int) -> str:
        """Return the public id of an account: 12 to 16 letters and digits."""
        number = self._draw.one(_TOPIC, -1, position)
        return f"{number:016x}"[: 12 + number % 5]

    def item_number(self, position: int, surface: int, sequence: int) -> int:
        """Return the number of an item before it is permuted; the next fifteen numbers are for its children."""
        packed = ((position << _SURFACE_BITS | surface) << _SEQUENCE_BITS) | sequence
        return packed << _CHILD_BITS

    def item_id(self, number: int) -> int:
        """Return the id of an item's or a child's number: an integer of 17 digits."""
        return _FIRST_ITEM + self._items.forth(number)
