"""The settings of a sandbox, as immutable values."""

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
    """At most ``requests`` per window of ``seconds``, for each tenant scope (API 4, 8)."""

    requests: int
    seconds: float

    def __post_init__(self) -> None:
        if self.requests < 1 or self.seconds <= 0:
            message = f"a rate limit needs at least 1 request and a positive window: {self}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """How posts are listed. By default: newest first, without pins, archived posts or wrong times.

    order
        ``newest_first``, ``oldest_first``, ``random``, ``by_id`` or ``by_last_edit``.
    pins
        the number of posts at the top, 0 to 5, which change every third day; with ``pins_twice`` they are also listed
        at their normal position.
    archived
        one in this many posts is hidden for two of five days; 0: none.
    back_dated, post_dated
        one in this many posts has a time 40 days too early or too late, possibly in the future; 0: none.
    ties
        times of publication are rounded down to this many days, so that several posts share one; 0: not rounded.

    Raises ValueError for an unknown order and for numbers out of range.
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
        the only source of randomness: sandboxes with equal settings serve equal bytes.
    accounts
        the number of accounts on day 0.
    posts, stories
        the mean number of posts per account on day 0, and of stories per account on each day.
    day
        the day at the start, 0 or more.
    first_day
        the time of day 0, in epoch seconds; all times of items are relative to it.
    change_every
        of this many accounts, each day one leaves, one joins and one token expires; 0: never.
    shape
        ``graph``, ``camel``, ``flat``, ``mixed`` (each account one of these three), ``nested``, or ``drift``
        (types and names that change in the middle of a scan).
    feed
        how posts are listed.
    page_extras
        whether a media page has another top-level field in addition to ``items`` and ``next_cursor``.
    account_catalog, selected_account
        rate limits by kind of tenant scope; None: off.
    keys, faults
        the accepted keys, and the scripted faults in order.
    log_size
        the number of requests in the log; 0: none.
    cache_bytes
        the size of the cache of rendered pages, in bytes.

    Raises ValueError for numbers out of range and for an unknown shape.
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
