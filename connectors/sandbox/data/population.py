"""The accounts that exist on a day, and their status (API 2, 3)."""

from functools import lru_cache
from typing import NamedTuple

from connectors.sandbox.contract import ACTIVE, TOKEN_EXPIRED
from connectors.sandbox.data.draw import Draw
from connectors.sandbox.data.identity import Identity
from connectors.sandbox.data.words import FIRST, SECOND, USERNAME_STYLES
from connectors.sandbox.settings import SandboxSettings

_LEAVES, _EXPIRES = 10, 11
_LONGEST_EXPIRY = 4
MOST_ACCOUNTS = 1 << 21


class Account(NamedTuple):
    """An element of the account list, and its ``position`` in the catalogue."""

    position: int
    id: str
    ig_username: str
    public_id: str
    status: str

    def json(self) -> str:
        """Return the account's JSON object (API 2); no value needs escaping."""
        return (
            f'{{"id":"{self.id}","ig_username":"{self.ig_username}",'
            f'"public_id":"{self.public_id}","status":"{self.status}"}}'
        )


class Population:
    """The accounts as a function of the day.

    Positions 0 to ``accounts - 1`` exist on day 0. In every block of ``change_every`` positions, each day one account
    leaves, and one token expires for one to four days; one account joins for each block. The account at position 0
    neither leaves nor expires, so that there is always one active account.
    """

    def __init__(self, settings: SandboxSettings, draw: Draw, identity: Identity) -> None:
        self._first_day = settings.accounts
        self._block = settings.change_every
        self._growth = settings.accounts // settings.change_every if settings.change_every else 0
        self._draw = draw
        self._identity = identity
        self._gone = lru_cache(maxsize=16_384)(self._gone_by)
        self._expired = lru_cache(maxsize=16_384)(self._expired_at)
        self._names = lru_cache(maxsize=16_384)(self._named)

    def size(self, day: int) -> int:
        """Return the number of positions used until this day, including those of accounts that have left."""
        return min(self._first_day + self._growth * day, MOST_ACCOUNTS)

    def visible(self, position: int, day: int) -> bool:
        """Return whether the account at this position is in the catalogue on this day."""
        if not 0 <= position < self.size(day):
            return False
        return not self._block or position not in self._gone(position // self._block, day)

    def account(self, position: int, day: int) -> Account:
        """Return the account at a position, whether or not it is visible."""
        is_expired = self._block and position in self._expired(position // self._block, day)
        return Account(position, *self._names(position), TOKEN_EXPIRED if is_expired else ACTIVE)

    def username(self, position: int) -> str:
        """Return the account's username, which is unique."""
        return self._names(position)[1]

    def _arrives(self, position: int) -> int:
        late = position - self._first_day
        return 0 if late < 0 or not self._growth else 1 + late // self._growth

    def _gone_by(self, block: int, day: int) -> frozenset[int]:
        gone = set()
        for then in range(1, day + 1):
            position = block * self._block + self._draw.one(_LEAVES, block, then) % self._block
            if position and self._arrives(position) < then:
                gone.add(position)
        return frozenset(gone)

    def _expired_at(self, block: int, day: int) -> frozenset[int]:
        expired = set()
        for ago in range(_LONGEST_EXPIRY):
            member, days, *_ = self._draw.eight(_EXPIRES, block, day - ago)
            if ago < 1 + days % _LONGEST_EXPIRY:
                expired.add(block * self._block + member % self._block)
        return frozenset(expired - {0})

    def _named(self, position: int) -> tuple[str, str, str]:
        return self._identity.account_id(position), username(position), self._identity.public_id(position)


def username(position: int) -> str:
    """Return a unique username of 1 to 30 characters for a position."""
    pairs = len(FIRST) * len(SECOND)
    lap, n = divmod(position, pairs)
    # The step is coprime to the number of pairs, so each pair is used once per lap.
    first, second = divmod((n * 1847 + 611) % pairs, len(SECOND))
    again, style = divmod(lap, len(USERNAME_STYLES))
    name = USERNAME_STYLES[style].format(first=FIRST[first], second=SECOND[second])
    return f"{name}{again + 1}" if again else name
