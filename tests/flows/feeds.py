"""Feeds of posts for the fake API, with pinned and archived posts, in any order."""

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal

from connectors.source.endpoints import ApiRequest, Response
from tests.clocks import START
from tests.flows.fake_api import FakeApi, account_of, cursor_of, is_posts

Order = Literal["newest_first", "oldest_first", "random", "by_id", "by_last_edit"]


@dataclass
class FeedPost:
    """A post of a feed."""

    number: int
    published_at: datetime | None
    likes: int = 0
    caption: str = "a post"
    edited_at: datetime | None = None
    is_archived: bool = False
    is_deleted: bool = False

    def item(self, account: int) -> dict[str, Any]:
        item: dict[str, Any] = {"id": f"{account}-{self.number}", "caption": self.caption, "like_count": self.likes}
        return item if self.published_at is None else {**item, "timestamp": self.published_at.isoformat()}


@dataclass
class Feed:
    """The posts of an account. Pinned posts are listed first, and with `pins_twice` again at their own position."""

    order: Order = "newest_first"
    posts: list[FeedPost] = field(default_factory=list)
    pins: list[int] = field(default_factory=list)
    pins_twice: bool = False

    def post(self, published_at: datetime | None, **text: Any) -> FeedPost:  # noqa: ANN401 - fields of a post
        post = FeedPost(len(self.posts), published_at, **text)
        self.posts.append(post)
        return post

    def listed(self) -> list[FeedPost]:
        """The posts in the order in which the API lists them."""
        there = [post for post in self.posts if not post.is_archived and not post.is_deleted]
        keys: dict[Order, Any] = {
            "newest_first": lambda post: (post.published_at is None, -_seconds(post.published_at)),
            "oldest_first": lambda post: _seconds(post.published_at),
            "random": lambda post: Random(f"{len(there)} {post.number}").random(),
            "by_id": lambda post: f"{post.number * 7919 % 1000:04}",
            "by_last_edit": lambda post: -_seconds(post.edited_at or post.published_at),
        }
        ordered = sorted(there, key=keys[self.order])
        pinned = [post for number in self.pins for post in there if post.number == number]
        rest = ordered if self.pins_twice else [post for post in ordered if post not in pinned]
        return [*pinned, *rest]


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


@dataclass
class FakeFeedApi(FakeApi):
    """A fake API with feeds. The page with the cursor `circle` returns its own cursor as the next one.

    Each request takes `seconds_each` seconds.
    """

    feeds: dict[int, Feed] = field(default_factory=dict)
    seconds_each: float = 0.0
    circle: str | None = None

    async def send(self, request: ApiRequest) -> Response:
        self.clock.passed += self.seconds_each
        return await super().send(request)

    def _page(self, request: ApiRequest) -> bytes:
        page = super()._page(request)
        cursor = cursor_of(request)
        if cursor is None or cursor != self.circle:
            return page
        return json.dumps(json.loads(page) | {"next_cursor": cursor}).encode()

    def _items(self, request: ApiRequest, params: dict[str, str]) -> list[dict[str, Any]]:
        account = account_of(request)
        if account is None or params["surface"] == "stories":
            return super()._items(request, params)
        return [post.item(account) for post in self.feeds[account].listed()]

    def post_cursors(self, account: int = 1) -> list[str | None]:
        """The cursors of the requested pages of posts so far."""
        return [cursor_of(request) for request in self.requests if is_posts(request, account)]


def daily(posts: int, *, since: datetime = START, per_day: int = 2, **text: Any) -> Feed:  # noqa: ANN401 - a feed's
    """Return a feed of `posts` posts, `per_day` a day, the newest an hour before `since`."""
    feed = Feed(**text)
    for index in range(posts):
        feed.post(since - timedelta(hours=1) - (posts - 1 - index) * timedelta(hours=24 / per_day))
    return feed
