"""Feeds of posts for the fake API, with pinned posts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from connectors.source.endpoints import ApiRequest, Response
from tests.clocks import START
from tests.flows.fake_api import FakeApi, account_of, cursor_of, is_posts


@dataclass
class FeedPost:
    """A post of a feed."""

    number: int
    published_at: datetime
    likes: int = 0
    is_deleted: bool = False

    def item(self, account: int) -> dict[str, Any]:
        return {
            "id": f"{account}-{self.number}",
            "caption": "a post",
            "like_count": self.likes,
            "timestamp": self.published_at.isoformat(),
        }


@dataclass
class Feed:
    """The posts of an account, the newest first, but pinned ones before all others."""

    posts: list[FeedPost] = field(default_factory=list)
    pins: list[int] = field(default_factory=list)

    def post(self, published_at: datetime) -> FeedPost:
        post = FeedPost(len(self.posts), published_at)
        self.posts.append(post)
        return post

    def listed(self) -> list[FeedPost]:
        """The posts in the order in which the API lists them."""
        there = [post for post in self.posts if not post.is_deleted]
        pinned = [post for number in self.pins for post in there if post.number == number]
        ordered = sorted(there, key=lambda post: post.published_at, reverse=True)
        return [*pinned, *(post for post in ordered if post not in pinned)]


@dataclass
class FakeFeedApi(FakeApi):
    """A fake API with feeds. Each request takes `seconds_each` seconds."""

    feeds: dict[int, Feed] = field(default_factory=dict)
    seconds_each: float = 0.0

    async def send(self, request: ApiRequest) -> Response:
        self.clock.passed += self.seconds_each
        return await super().send(request)

    def _items(self, request: ApiRequest, params: dict[str, str]) -> list[dict[str, Any]]:
        account = account_of(request)
        if account is None or params["surface"] == "stories":
            return super()._items(request, params)
        return [post.item(account) for post in self.feeds[account].listed()]

    def post_cursors(self, account: int = 1) -> list[str | None]:
        """The cursors of the requested pages of posts so far."""
        return [cursor_of(request) for request in self.requests if is_posts(request, account)]


def daily(posts: int, *, per_day: int = 2, pins: Sequence[int] = ()) -> Feed:
    """Return a feed of `posts` posts, `per_day` a day, the newest an hour before the first run."""
    feed = Feed(pins=[*pins])
    for index in range(posts):
        feed.post(START - timedelta(hours=1) - (posts - 1 - index) * timedelta(hours=24 / per_day))
    return feed
