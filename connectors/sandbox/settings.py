"""The settings of a sandbox, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.sandbox.data.calendar import FIRST_DAY
from connectors.sandbox.http.keys import BUILT_IN, Key

if TYPE_CHECKING:
    from connectors.sandbox.faults.rules import Rule

SHAPES = ("graph", "camel", "flat", "mixed", "nested", "drift")
ORDERS = ("newest_first", "oldest_first", "random", "by_id", "by_last_edit")
MAX_ACCOUNTS = 1 << 20
MAX_POSTS = 5_000_000
MAX_STORIES = 100


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most ``requests`` per window of ``seconds``, for each tenant scope by itself (API 4, 8)."""

    requests: int
    seconds: float

    def __post_init__(self) -> None:
        if self.requests < 1 or self.seconds <= 0:
            message = f"a rate limit needs at least 1 request and a positive window: {self}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How posts are listed; as it stands: newest first, and nothing else.

    order
        ``newest_first``, ``oldest_first``, ``random``, ``by_id`` or ``by_last_edit``.
    pins
        how many posts stand first, others every third day, 0 to 5; with ``pins_twice`` at their own positions, too.
    archived, back_dated
        one post of so many is archived for two days of five, or claims to be 40 days older than it is; 0: none.
    post_dated
        one post of so many claims to be 40 days newer than it is, which may lie in the future; 0: none.
    ties
        times of publication are rounded down to so many days, so that several posts share one; 0: as they are.

    Raises ValueError for an unknown order and numbers out of bounds.
    """

    order: str = "newest_first"
    pins: int = 0
    pins_twice: bool = False
    archived: int = 0
    back_dated: int = 0
    post_dated: int = 0
    ties: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            message = f"the order must be one of {', '.join(ORDERS)}, not {self.order!r}"
            raise ValueError(message)
        if not 0 <= self.pins <= 5 or min(self.archived, self.back_dated, self.post_dated, self.ties) < 0:
            message = f"a feed has 0 to 5 pins, and no number of it is negative: {self}"
            raise ValueError(message)


PLAIN_FEED = FeedSettings()


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """All settings of a sandbox.

    seed
        the only source of chance: two sandboxes with equal settings serve equal bytes.
    accounts
        accounts visible at day 0.
    posts, stories
        mean number of posts per account at day 0, and of live stories per account each day.
    day
        the day it starts at, 0 or more; items' times derive from it.
    first_day
        the moment day 0 stands for, in epoch seconds; whatever has a time moves with it.
    change_every
        out of so many accounts, each day one leaves, one joins and one token expires; 0: none ever.
    shape
        ``graph``, ``camel``, ``flat``, ``mixed`` (each account one of these three), ``nested``, or ``drift``
        (types and names that change in the middle of a scan).
    feed
        how posts are listed.
    page_extras
        whether a media page carries a top-level field beside ``items`` and ``next_cursor``.
    account_catalog, selected_account
        rate limits by kind of tenant scope; None: off.
    keys, faults
        the credentials accepted and the scripted faults, in order.
    log_size
        how many of the last requests are remembered; 0: none.
    cache_bytes
        the most that rendered pages may hold, in bytes.

    Raises ValueError for numbers the catalogue has no room for and for an unknown shape.
    """

    seed: int = 7
    accounts: int = 40
    posts: int = 60
    stories: int = 2
    day: int = 0
    first_day: int = FIRST_DAY
    change_every: int = 40
    shape: str = "mixed"
    feed: FeedSettings = PLAIN_FEED
    page_extras: bool = False
    account_catalog: RateLimit | None = None
    selected_account: RateLimit | None = None
    keys: tuple[Key, ...] = BUILT_IN
    faults: tuple[Rule, ...] = ()
    log_size: int = 10_000
    cache_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        bounds = (
            ("accounts", self.accounts, MAX_ACCOUNTS),
            ("posts", self.posts, MAX_POSTS),
            ("stories", self.stories, MAX_STORIES),
            ("day", self.day, 10_000),
            ("change_every", self.change_every, MAX_ACCOUNTS),
            ("log_size", self.log_size, 100_000_000),
            ("cache_bytes", self.cache_bytes, 1 << 40),
        )
        for name, value, most in bounds:
            if not 0 <= value <= most:
                message = f"{name} must be between 0 and {most}, not {value}"
                raise ValueError(message)
        if self.shape not in SHAPES:
            message = f"shape must be one of {', '.join(SHAPES)}, not {self.shape!r}"
            raise ValueError(message)
