"""The catalogue: accounts and media of any size, made a page at a time and never held."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from connectors.sandbox.contract import POSTS, STORIES, SURFACES, UUID
from connectors.sandbox.data.draw import Draw
from connectors.sandbox.data.feeds import ArrangedPosts
from connectors.sandbox.data.identity import Identity
from connectors.sandbox.data.nights import FIRST_NIGHT
from connectors.sandbox.data.population import MOST_ACCOUNTS, Account, Population
from connectors.sandbox.data.posts import START, Posts
from connectors.sandbox.data.shapes.select import shape_of
from connectors.sandbox.data.stories import Stories
from connectors.sandbox.settings import PLAIN_FEED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from connectors.sandbox.data.posts import Item
    from connectors.sandbox.settings import SandboxSettings

Grant = tuple[int, ...] | None
_OWNERS = 10**10


class Surface(Protocol):
    """Posts or stories of every account."""

    def before(self, position: int, night: int, sequence: int) -> Iterator[Item]:
        """Yield what an account shows on a night, newest first, older than ``sequence``."""
        ...


class Page(NamedTuple):
    """Rendered items, in order, and the anchor the next page starts after; None on the last page."""

    items: list[str]
    anchor: int | None


class Catalogue:
    """What the service knows, night by night. Everything here is a pure function of the settings.

    Accounts are anchored at their position (growing), media at their sequence (falling): an anchor names
    an item, not a count, so nothing that comes or goes elsewhere moves a scan.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        draw = Draw(settings.seed)
        self._shape = settings.shape
        self._later = settings.first_night - FIRST_NIGHT
        self._identity = Identity(draw)
        self._population = Population(settings, draw, self._identity)
        posts = Posts(settings.posts, draw, self._identity)
        self._surfaces: dict[str, Surface] = {
            POSTS: posts if settings.feed == PLAIN_FEED else ArrangedPosts(posts, settings.feed, draw),
            STORIES: Stories(settings.stories, draw, self._identity),
        }

    def position(self, account_id: str) -> int:
        """Return the place of the account with this uuid on whatever night, -1 when there is none."""
        position = self._identity.position(account_id) if UUID.fullmatch(account_id) else -1
        return position if position < MOST_ACCOUNTS else -1

    def account_id(self, position: int) -> str:
        """Return the uuid of the account at a position."""
        return self._identity.account_id(position)

    def find(self, account_id: str, night: int) -> Account | None:
        """Return the account with this uuid when it is in the catalogue on this night."""
        position = self.position(account_id)
        return self._population.account(position, night) if self._population.visible(position, night) else None

    def has_listed(self, position: int, night: int) -> bool:
        """Tell whether the account at this position is in the catalogue on this night, or was and left."""
        return 0 <= position < self._population.size(night)

    def positions(self, wanted: Collection[str], night: int) -> dict[str, int]:
        """Return the positions of the ids and usernames that are listed on this night, or were and left."""
        found = {one: position for one in wanted if self.has_listed(position := self.position(one), night)}
        if len(found) < len(set(wanted)):
            names = set(wanted)
            for position in range(self._population.size(night)):
                if (name := self._population.username(position)) in names:
                    found[name] = position
        return found

    def accounts(self, night: int, grant: Grant = None, after: int = -1) -> Iterator[Account]:
        """Yield the accounts of a grant that are visible on this night, after a position."""
        population = self._population
        if grant is None:
            positions: Iterator[int] = iter(range(after + 1, population.size(night)))
        else:
            positions = iter(grant[bisect_right(grant, after) :])
        return (population.account(p, night) for p in positions if population.visible(p, night))

    def items(self, account: Account, surface: str, night: int, before: int = START) -> Iterator[str]:
        """Yield the items of one account and surface as JSON texts, newest first."""
        return (text for _, text in self._rendered(account, surface, night, before))

    def account_page(self, night: int, grant: Grant, after: int | None, limit: int) -> Page:
        """Return a page of the account list (API 4.1) that starts after a position."""
        start = -1 if after is None else after
        found = list(islice(self.accounts(night, grant, start), limit + 1))
        shown = found[:limit]
        return Page([account.json() for account in shown], shown[-1].position if len(found) > limit else None)

    def media_page(self, night: int, account: Account, surface: str, before: int | None, limit: int) -> Page:
        """Return a page of the media list (API 4.2) that starts before a sequence."""
        start = START if before is None else before
        found = list(islice(self._rendered(account, surface, night, start), limit + 1))
        shown = found[:limit]
        return Page([text for _, text in shown], shown[-1][0] if len(found) > limit else None)

    def truth(self, night: int, grant: Grant = None) -> Iterator[tuple[Account, str, str]]:
        """Yield (account, surface, item as JSON text) for everything a grant reaches on a night."""
        for account in self.accounts(night, grant):
            for surface in SURFACES:
                for item in self.items(account, surface, night):
                    yield account, surface, item

    def _rendered(self, account: Account, surface: str, night: int, before: int) -> Iterator[tuple[int, str]]:
        shape = shape_of(self._shape, account.position)
        # The network's own number of an account: eleven digits, so never mistaken for an item's.
        owner = _OWNERS + account.position
        for item in self._surfaces[surface].before(account.position, night, before):
            shown = item._replace(published=item.published + self._later) if self._later else item
            yield item.sequence, shape(shown, account.ig_username, owner, night)
