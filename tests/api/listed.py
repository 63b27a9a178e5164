"""An API that lists records as a test writes them, with cursors such as `c2`, on the virtual clock of its runs."""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from connectors.sandbox.data.catalogue import Account
from connectors.sandbox.data.identity import Draw
from connectors.sandbox.http.requests import Credential, Cursors, PageRequest, Resource
from tests.api.asked import Asked
from tests.api.faults import Action
from tests.api.server import Api
from tests.clocks import START, VirtualClock

Records = list[dict[str, Any]]


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def account(number: int, status: str = "active", **changes: object) -> dict[str, Any]:
    """Return a record of the account list."""
    known = {"id": uuid(number), "ig_username": f"user_{number}", "public_id": f"p{number:012d}", "status": status}
    return {**known, **changes}


@dataclass
class Feed:
    """The times of an account's posts by their numbers; the newest are listed first, but pinned ones before all."""

    posts: dict[int, datetime] = field(default_factory=dict)
    pins: Sequence[int] = ()

    def post(self, published_at: datetime) -> None:
        self.posts[len(self.posts)] = published_at

    def listed(self) -> list[int]:
        """Return the numbers of the posts in the order in which the API lists them."""
        newest = sorted(self.posts, key=self.posts.__getitem__, reverse=True)
        return [*self.pins, *(number for number in newest if number not in self.pins)]


def daily(posts: int, *, per_day: int = 2, pins: Sequence[int] = ()) -> Feed:
    """Return a feed of `posts` posts, `per_day` a day, the newest an hour before the first run."""
    feed = Feed(pins=pins)
    for before in reversed(range(posts)):
        feed.post(START - timedelta(hours=1) - before * timedelta(hours=24 / per_day))
    return feed


class _Numbered(Cursors):
    def issue(self, _: Resource, anchor: int) -> str:
        return f"c{anchor}"

    def read(self, text: str, _: Resource) -> int | None:
        return int(text[1:]) if re.fullmatch("c[0-9]+", text) else None


class ListedApi(Api):
    """Accounts 1 to `accounts`, each with `posts` posts, or those of its feed in `feeds`, and `stories` stories.

    `change_accounts` and `change_posts` return what is listed instead of all accounts, and of the posts of an account.
    """

    def __init__(
        self,
        accounts: int = 3,
        posts: int = 3,
        *,
        stories: int = 0,
        expired: Collection[int] = (),
        feeds: Mapping[int, Feed] | None = None,
        fault: Callable[[Asked], Action | BaseException | None] = lambda _: None,
        change_accounts: Callable[[Records], Records] = list,
        change_posts: Callable[[Records], Records] = list,
        clock: VirtualClock | None = None,
    ) -> None:
        super().__init__(clock=clock or VirtualClock())
        self.accounts, self.posts, self.stories = accounts, posts, stories
        self.expired, self.feeds, self.fault = expired, feeds or {}, fault
        self.change_accounts, self.change_posts = change_accounts, change_posts
        self.cursors = _Numbered(Draw(0))
        # Each answer has its own: one that is repeated came from a cache.
        self.correlation_ids = map("{:026}".format, count(1))

    def records(self, number: int | None, surface: str) -> Records:
        """Return all records of a list; without a number, of the account list."""
        if number is None:
            numbers = range(1, self.accounts + 1)
            return self.change_accounts(
                [account(n, "token_expired" if n in self.expired else "active") for n in numbers]
            )
        if surface == "stories":
            return [{"id": f"story-{number:03}-{index}"} for index in range(self.stories)]
        if number in self.feeds:
            feed = self.feeds[number]
            found = [(f"{number}-{post}", feed.posts[post].isoformat()) for post in feed.listed()]
            return [{"id": one, "caption": "a post", "timestamp": published_at} for one, published_at in found]
        return self.change_posts([{"id": f"{number:03}-{index}", "caption": "a post"} for index in range(self.posts)])

    def granted(self, _: Credential, account_id: str) -> Account:
        """Return an account: every key has access to all."""
        return Account(int(account_id[-12:]), account_id, "", "", "")

    def render(self, request: PageRequest) -> bytes:
        """Return a page."""
        number = None if request.account is None else request.account.position
        begin = 0 if request.cursor is None else request.anchor
        end, records = begin + request.limit, self.records(number, request.surface)
        cursor = f"c{end}" if end < len(records) else None
        return json.dumps({"items": records[begin:end], "next_cursor": cursor}).encode()

    def post_cursors(self, number: int = 1) -> list[str | None]:
        """Return the cursors of the pages of an account's posts that were asked for."""
        return [asked.cursor for asked in self.requests if asked.is_posts(number)]
