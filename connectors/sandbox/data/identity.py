"""Reproducible random numbers, ids of accounts from which a position can be read, and words: no list is kept."""

import tomllib
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files
from struct import Struct
from uuid import UUID

_FOUR = Struct("<4q")
_EIGHT = Struct("<8Q")
_POSITION_BYTES = 4
_WORDS: Mapping[str, Sequence[str]] = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))


class Draw:
    """A source of random numbers and ids of accounts: pure functions of the seed and a few integers."""

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


def word(kind: str, number: int) -> str:
    """Return a word or a phrase of a kind in `words.toml`."""
    return _WORDS[kind][number % len(_WORDS[kind])]


def username(position: int) -> str:
    """Return a unique username of 1 to 30 characters for a position."""
    first, second = _WORDS["first"], _WORDS["second"]
    lap, n = divmod(position, len(first) * len(second))
    # The step is coprime to the number of pairs, so each pair is used once per lap.
    one, other = divmod((n * 1847 + 611) % (len(first) * len(second)), len(second))
    return f"{first[one]}.{second[other]}{lap + 1 if lap else ''}"
