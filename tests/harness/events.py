"""The events of a command, in order. A seed must always produce the same ones."""

from dataclasses import dataclass
from typing import Literal

from tests.harness.oracle.tables import CATALOGUE, Partition

# Which page landed, if any.
Page = Literal["page", "unreadable"] | None


@dataclass(frozen=True, slots=True)
class Sent:
    """A request was sent, `at` so many seconds after the beginning."""

    at: float
    partition: Partition
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer arrived; status 0 is a broken connection, and -1 a request that the client cancelled.

    `whole` is false for a truncated body.
    """

    at: float
    partition: Partition
    cursor: str | None
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def correlation_id(self) -> str | None:
        return self.headers.get("x-correlation-id")


@dataclass(frozen=True, slots=True)
class Landed:
    """What is durable now. `page`: the last answer of the partition, as a page or an unreadable one.

    `state` is that of the partition's scan after it: scanning, complete, recent or abandoned; None: as before.
    `cooldown`: the rate-limit scope whose cooldown is saved.
    """

    at: float
    partition: Partition
    page: Page = None
    state: str | None = None
    cooldown: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A run has decided, at its end, which of the missing items and accounts are removed."""


Event = Sent | Answered | Landed | Decided


def scope_of(partition: Partition) -> str:
    """Return the rate-limit scope of a partition (API 4)."""
    return "account_catalog" if partition == CATALOGUE else f"selected_account:{partition[0]}"
