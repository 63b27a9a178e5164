"""The catalogue: any number of accounts and media, generated when they are listed and never kept in memory."""

from bisect import bisect_right
from collections.abc import Collection, Iterator

from connectors.sandbox.contract import POSTS, STORIES, UUID
from connectors.sandbox.data.draw import Draw
from connectors.sandbox.data.identity import Identity
from connectors.sandbox.data.items import Item, graph
from connectors.sandbox.data.population import MOST_ACCOUNTS, Account, Population
from connectors.sandbox.data.posts import Posts
from connectors.sandbox.data.stories import Stories
from connectors.sandbox.settings import SandboxSettings

Grant = tuple[int, ...] | None

# Where the first page of a list starts: after no account, and before an item newer than all others.
FIRST_ACCOUNT = -1
FIRST_ITEM = 1 << 62

_OWNERS = 10**10


class Catalogue:
    """All accounts and media on each day, as pure functions of the settings.

    A subclass can replace ``surfaces``, by name, and override ``render``.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        self.draw = Draw(settings.seed)
        self.identity = Identity(self.draw)
        self._population = Population(settings, self.draw, self.identity)
        self.surfaces: dict[str, Posts | Stories] = {
            POSTS: Posts(settings, self.draw, self.identity),
            STORIES: Stories(settings, self.draw, self.identity),
        }

    def position(self, account_id: str) -> int:
        """Return the position of the account with this UUID, on any day; -1 if there is none."""
        position = self.identity.position(account_id) if UUID.fullmatch(account_id) else -1
        return position if position < MOST_ACCOUNTS else -1

    def find(self, account_id: str, day: int) -> Account | None:
        """Return the account with this UUID if it is in the catalogue on this day, otherwise None."""
        position = self.position(account_id)
        return self._population.account(position, day) if self._population.visible(position, day) else None

    def has_listed(self, position: int, day: int) -> bool:
        """Return whether the account at this position is, or was earlier, in the catalogue on this day."""
        return 0 <= position < self._population.size(day)

    def positions(self, wanted: Collection[str], day: int) -> dict[str, int]:
        """Return the positions of those ids and usernames that are, or were earlier, in the catalogue on this day."""
        found = {one: position for one in wanted if self.has_listed(position := self.position(one), day)}
        if len(found) < len(set(wanted)):
            names = set(wanted)
            for position in range(self._population.size(day)):
                if (name := self._population.username(position)) in names:
                    found[name] = position
        return found

    def accounts(self, day: int, grant: Grant = None, after: int = FIRST_ACCOUNT) -> Iterator[Account]:
        """Yield the granted accounts after a position that are visible on this day."""
        population = self._population
        if grant is None:
            positions: Iterator[int] = iter(range(after + 1, population.size(day)))
        else:
            positions = iter(grant[bisect_right(grant, after) :])
        return (population.account(p, day) for p in positions if population.visible(p, day))

    def items(self, account: Account, surface: str, day: int, before: int = FIRST_ITEM) -> Iterator[tuple[int, str]]:
        """Yield the sequence and the JSON text of the items of one account and surface, newest first."""
        for item in self.surfaces[surface].before(account.position, day, before):
            yield item.sequence, self.render(item, account, day)

    def render(self, item: Item, account: Account, day: int) -> str:
        """Return an item as JSON text."""
        return graph(item, account.ig_username, owner(account), day)


def owner(account: Account) -> int:
    """Return the social network's number of an account: eleven digits, so that it is never equal to an item's id."""
    return _OWNERS + account.position
