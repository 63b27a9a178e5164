"""Reversible ids: each id is a permutation of its position, so that no list of ids must be kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connectors.sandbox.data.draw import Draw

_TOPIC = 1
_ACCOUNT_BITS = 48
_ITEM_BITS = 53
_FIRST_ITEM = 10**16
_CHILD_BITS = 4
_SURFACE_BITS = 1
_SEQUENCE_BITS = 25
SEQUENCES = 1 << _SEQUENCE_BITS

_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_BASE62 = _BASE64[:62]
_PAIRS = tuple(high + low for high in _BASE64 for low in _BASE64)


class Shuffle:
    """A bijection on the numbers of ``bits`` bits, determined by the seed."""

    def __init__(self, draw: Draw, bits: int) -> None:
        mask, first, second, *_ = draw.eight(_TOPIC, bits)
        self._mask = mask % (1 << bits)
        self._first = first | 1
        self._second = second | 1
        self._modulus = 1 << bits
        self._shift = (bits + 1) // 2
        self._first_back = pow(self._first, -1, self._modulus)
        self._second_back = pow(self._second, -1, self._modulus)

    def forth(self, number: int) -> int:
        """Return the image of a number."""
        x = (number ^ self._mask) * self._first % self._modulus
        x ^= x >> self._shift
        return x * self._second % self._modulus

    def back(self, number: int) -> int:
        """Return the number whose image this is."""
        x = number * self._second_back % self._modulus
        x ^= x >> self._shift
        return (x * self._first_back % self._modulus) ^ self._mask


class Identity:
    """Ids of accounts (UUIDs), ids of media items and their children (17 digits), and public ids."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._accounts = Shuffle(draw, _ACCOUNT_BITS)
        self._items = Shuffle(draw, _ITEM_BITS)

    def account_id(self, position: int) -> str:
        """Return the UUID of the account at a position."""
        rest = self._draw.one(_TOPIC, -1, position)
        head = f"{self._accounts.forth(position):012x}"
        middle = f"4{rest & 0xFFF:03x}-{0x8000 | (rest >> 12 & 0x3FFF):04x}"
        return f"{head[:8]}-{head[8:]}-{middle}-{rest >> 16:012x}"

    def position(self, account_id: str) -> int:
        """Return the position of the account with this id; -1 if no account has it."""
        found = self._accounts.back(int(account_id[:8] + account_id[9:13], 16))
        return found if self.account_id(found) == account_id.lower() else -1

    def public_id(self, position: int) -> str:
        """Return the public id of an account: 12 to 16 letters and digits."""
        length, letters, *_ = self._draw.eight(_TOPIC, -2, position)
        letters |= (length >> 2) << 64
        return "".join(_BASE62[(letters >> 6 * n & 63) % 62] for n in range(12 + length % 5))

    def item_number(self, position: int, surface: int, sequence: int) -> int:
        """Return the number of an item before it is permuted; the next fifteen numbers are for its children."""
        packed = ((position << _SURFACE_BITS | surface) << _SEQUENCE_BITS) | sequence
        return packed << _CHILD_BITS

    def item_id(self, number: int) -> int:
        """Return the id of an item's or a child's number: an integer of 17 digits."""
        return _FIRST_ITEM + self._items.forth(number)


def shortcode(item_id: int) -> str:
    """Return the eleven characters that identify an item in its permalink."""
    pairs = _PAIRS
    return (
        f"C{pairs[item_id >> 48 & 4095]}{pairs[item_id >> 36 & 4095]}{pairs[item_id >> 24 & 4095]}"
        f"{pairs[item_id >> 12 & 4095]}{pairs[item_id & 4095]}"
    )
