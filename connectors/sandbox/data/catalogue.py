"""The catalogue: any number of accounts and media, generated page by page and never kept in memory."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from connectors.sandbox.contract import POSTS, STORIES, SURFACES, UUID
from connectors.sandbox.data.calendar import FIRST_DAY
from connectors.sandbox.data.draw import Draw
from connectors.sandbox.data.feeds import ArrangedPosts
from connectors.sandbox.data.identity import Identity
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

    def before(self, position: int, day: int, sequence: int) -> Iterator[Item]:
        """Yield the items of an account on a day that are older than ``sequence``, newest first."""
        ...


class Page(NamedTuple):
    """Rendered items in order, and the anchor after which the next page starts; None on the last page."""

    items: list[str]
    anchor: int | None


class Catalogue:
    """All accounts and media on each day, as pure functions of the settings.

    A page's anchor is an account's position (increasing) or an item's sequence (decreasing). It identifies an item, not
    an offset, so that added and removed items do not shift the pages of a scan.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        draw = Draw(settings.seed)
        self._shape = settings.shape
        self._later = settings.first_day - FIRST_DAY
        self._identity = Identity(draw)
        self._population = Population(settings, draw, self._identity)
        posts = Posts(settings.posts, draw, self._identity)
        self._surfaces: dict[str, Surface] = {
            POSTS: posts if settings.feed == PLAIN_FEED else ArrangedPosts(posts, settings.feed, draw),
            STORIES: Stories(settings.stories, draw, self._identity),
        }

    def position(self, account_id: str) -> int:
        """Return the position of the account with this UUID, on any day; -1 if there is none."""
        position = self._identity.position(account_id) if UUID.fullmatch(account_id) else -1
        return position if position < MOST_ACCOUNTS else -1

    def account_id(self, position: int) -> str:
        """Return the UUID of the account at a position."""
        return self._identity.account_id(position)

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

    def accounts(self, day: int, grant: Grant = None, after: int = -1) -> Iterator[Account]:
        """Yield the granted accounts after a position that are visible on this day."""
        population = self._population
        if grant is None:
            positions: Iterator[int] = iter(range(after + 1, population.size(day)))
        else:
            positions = iter(grant[bisect_right(grant, after) :])
        return (population.account(p, day) for p in positions if population.visible(p, day))

    def items(self, account: Account, surface: str, day: int, before: int = START) -> Iterator[str]:
        """Yield the items of one account and surface as JSON text, newest first."""
        return (text for _, text in self._rendered(account, surface, day, before))

    def account_page(self, day: int, grant: Grant, after: int | None, limit: int) -> Page:
        """Return a page of the account list (API 4.1) that starts after a position."""
        start = -1 if after is None else after
        found = list(islice(self.accounts(day, grant, start), limit + 1))
        shown = found[:limit]
        return Page([account.json() for account in shown], shown[-1].position if len(found) > limit else None)

    def media_page(self, day: int, account: Account, surface: str, before: int | None, limit: int) -> Page:
        """Return a page of the media list (API 4.2) that starts before a sequence."""
        start = START if before is None else before
        found = list(islice(self._rendered(account, surface, day, start), limit + 1))
        shown = found[:limit]
        return Page([text for _, text in shown], shown[-1][0] if len(found) > limit else None)

    def truth(self, day: int, grant: Grant = None) -> Iterator[tuple[Account, str, str]]:
        """Yield (account, surface, item as JSON text) for all items of the granted accounts on a day."""
        for account in self.accounts(day, grant):
            for surface in SURFACES:
                for item in self.items(account, surface, day):
                    yield account, surface, item

    def _rendered(self, account: Account, surface: str, day: int, before: int) -> Iterator[tuple[int, str]]:
        shape = shape_of(self._shape, account.position)
        # The social network's number of the account: eleven digits, so that it is never equal to an item's id.
        owner = _OWNERS + account.position
        for item in self._surfaces[surface].before(account.position, day, before):
            shown = item._replace(published=item.published + self._later) if self._later else item
            yield item.sequence, shape(shown, account.ig_username, owner, day)
