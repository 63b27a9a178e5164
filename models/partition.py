"""A partition: what one cursor scans."""

from dataclasses import dataclass


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
