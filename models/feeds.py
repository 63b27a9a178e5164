"""What a run pages through: the feeds, and partitions, each with a cursor of its own.

One entry declares a feed. Options, tables and the API call the name of a feed its surface. Python outside of this
module uses the properties of a feed, never its name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

# Media of an account (API 4.2).
_MEDIA = ("accounts.media.list", "/api/v1/accounts/{account_id}/media")


@dataclass(frozen=True, slots=True)
class Feed:
    """A list that the API has for each account.

    `noun` is the word for one item, and the name that for several. `operation` is the API's own name of the request,
    whose `path` is below the address of the service and has a place for the `{account_id}`; `parameters` are sent with
    each. All feeds of an account share its rate-limit scope.

    `may_be_ordered`: items may be listed newest first. Once that was observed, a recent scan may stop at known ones.
    `lifetime`: the age from which the API lists an item no more; None: items do not expire.
    """

    name: str
    noun: str
    operation: str
    path: str
    parameters: tuple[tuple[str, str], ...] = ()
    may_be_ordered: bool = False
    lifetime: timedelta | None = None


# Stories come first, because they expire.
FEEDS: Mapping[str, Feed] = {
    feed.name: feed
    for feed in (
        Feed("stories", "story", *_MEDIA, (("surface", "stories"),), lifetime=timedelta(hours=24)),
        Feed("posts", "post", *_MEDIA, (("surface", "posts"),), may_be_ordered=True),
    )
}

SURFACES = tuple(FEEDS)
"""The names of all feeds."""

LIFETIMES = {name: feed.lifetime for name, feed in FEEDS.items() if feed.lifetime is not None}
"""The lifetimes of the feeds whose items expire."""


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """The account catalogue, or one feed of one account (API 4.1, 4.2).

    `resource` is accounts or media. `account_id` and `surface`, the name of the feed, are empty strings for the
    catalogue, so that a partition can be a key in SQL, where NULL never equals NULL.
    """

    resource: str
    account_id: str = ""
    surface: str = ""

    def __str__(self) -> str:
        return f"{self.surface} of account {self.account_id}" if self.surface else self.resource


CATALOGUE = Partition("accounts")


def media(account_id: str, surface: str) -> Partition:
    """Return the partition of one account's feed of this name."""
    return Partition("media", account_id, surface)
