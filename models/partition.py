"""A partition: what one cursor scans."""

from dataclasses import dataclass
from typing import Literal

Surface = Literal["posts", "stories"]
Resource = Literal["accounts", "media"]

# Stories expire after 24 hours, so they are scanned before the posts.
SURFACES: tuple[Surface, ...] = ("stories", "posts")


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """The account catalogue, or one account x surface (API 4.1, 4.2).

    `account_id` and `surface` are empty strings for the catalogue, so that a partition can be a key in SQL, where NULL
    never equals NULL.
    """

    resource: Resource
    account_id: str = ""
    surface: Surface | Literal[""] = ""

    def __str__(self) -> str:
        return "accounts" if self.resource == "accounts" else f"{self.surface} of account {self.account_id}"


CATALOGUE = Partition("accounts")


def media(account_id: str, surface: Surface) -> Partition:
    """Return the partition of one account's posts or stories."""
    return Partition("media", account_id, surface)
