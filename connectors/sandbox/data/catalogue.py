"""The catalogue: any number of accounts and media, generated when they are listed and never kept in memory."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from connectors.sandbox.contract import ACTIVE, POSTS, STORIES, TOKEN_EXPIRED, UUID
from connectors.sandbox.data.identity import Draw, username
from connectors.sandbox.data.items import Document, Item, graph
from connectors.sandbox.data.posts import Posts, Stories
from connectors.sandbox.settings import SandboxSettings

Grant = tuple[int, ...] | None

# Where the first page of a list starts: after no account, and before an item newer than all others.
FIRST_ACCOUNT = -1
FIRST_ITEM = 1 << 62

_LIFE = 10
_LONGEST_EXPIRY = 4
_MOST_ACCOUNTS = 1 << 21


class Account(NamedTuple):
    """An element of the account list, and its ``position`` in the catalogue."""

    position: int
    id: str
    ig_username: str
    public_id: str
    status: str

    def record(self) -> dict[str, str]:
        """Return the element (API 2)."""
        return {"id": self.id, "ig_username": self.ig_username, "public_id": self.public_id, "status": self.status}


class Catalogue:
    """All accounts and media on each day, as pure functions of the settings.

    Positions 0 to ``accounts - 1`` exist on day 0. An account stays for ``change_every`` days on average, and in each
    of as many its token expires once, for one to four days. The account at position 0 neither leaves nor expires, so
    that there is always one active account.

    A subclass can replace ``surfaces``, by name, and override ``render``.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        self.draw = Draw(settings.seed)
        posts, stories = Posts(settings, self.draw), Stories(settings, self.draw)
        self.surfaces: dict[str, Posts | Stories] = {POSTS: posts, STORIES: stories}
        self._at_first = settings.accounts
        self._often = settings.change_every
        self._growth = settings.accounts // settings.change_every if settings.change_every else 0

    def position(self, account_id: str) -> int:
        """Return the position of the account with this UUID, on any day; -1 if there is none."""
        position = self.draw.position(account_id) if UUID.fullmatch(account_id) else -1
        return position if position < _MOST_ACCOUNTS else -1

    def find(self, position: int, day: int) -> Account | None:
        """Return the account at a position if it is in the catalogue on this day, otherwise None."""
        if not self.has_listed(position, day):
            return None
        draw, status = self.draw, ACTIVE
        if position and self._often:
            life, phase, days, *_ = draw.eight(_LIFE, position)
            late = position - self._at_first
            arrival = 0 if late < 0 else 1 + late // self._growth
            if day - arrival > life % (2 * self._often):
                return None
            if (day + phase) % self._often < 1 + days % _LONGEST_EXPIRY:
                status = TOKEN_EXPIRED
        public_id = draw.tag(f"public {position}", 7).hex()
        return Account(position, draw.account_id(position), username(position), public_id, status)

    def has_listed(self, position: int, day: int) -> bool:
        """Return whether the account at this position is, or was earlier, in the catalogue on this day."""
        return 0 <= position < self._size(day)

    def accounts(self, day: int, grant: Grant = None, after: int = FIRST_ACCOUNT) -> Iterator[Account]:
        """Yield the granted accounts after a position that are in the catalogue on this day."""
        positions = range(after + 1, self._size(day)) if grant is None else grant[bisect_right(grant, after) :]
        return (account for position in positions if (account := self.find(position, day)))

    def items(
        self, account: Account, surface: str, day: int, before: int = FIRST_ITEM
    ) -> Iterator[tuple[int, Document]]:
        """Yield the sequence and the record of the items of one account and surface, newest first."""
        for item in self.surfaces[surface].before(account.position, day, before):
            yield item.sequence, self.render(item, account, day)

    def render(self, item: Item, account: Account, day: int) -> Document:
        """Return an item's record."""
        return graph(item, account.ig_username, owner(account), day)

    def _size(self, day: int) -> int:
        """Return the number of positions used until this day, including those of accounts that have left."""
        return min(self._at_first + self._growth * day, _MOST_ACCOUNTS)


def owner(account: Account) -> int:
    """Return the social network's number of an account: eleven digits, so that it is never equal to an item's id."""
    return 10**10 + account.position
