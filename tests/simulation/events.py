"""What happens in a day, in its order: the trace that a seed must repeat to the letter."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.sandbox.data.calendar import FIRST_DAY

Partition = tuple[str, str]
CATALOGUE: Partition = ("", "")
SURFACES = ("stories", "posts")
_BEGINNING = datetime.fromtimestamp(FIRST_DAY, UTC)


def instant(seconds: float) -> datetime:
    """The time of day at a second of the loop's."""
    return _BEGINNING + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request left."""

    at: float
    partition: Partition
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Got:
    """An answer arrived: status 0 is a broken connection, and what is not `whole` was cut."""

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
class Lost:
    """Whoever asked no longer waits for the answer."""

    at: float
    partition: Partition


@dataclass(frozen=True, slots=True)
class PendingPages:
    """A page is durable; with it a recent scan is closed, or it goes on as far as its cursor leads."""

    at: float
    correlation_id: str | None
    recent: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A page that could not be read is durably kept for quarantine."""

    at: float
    partition: Partition
    text: str


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A scan that must not be resumed is durably marked so."""

    at: float
    partition: Partition


@dataclass(frozen=True, slots=True)
class Held:
    """A promise to wait is durable."""

    at: float
    scope: str


Event = Sent | Got | Lost | PendingPages | Kept | GivenUp | Held


def scope_of(partition: Partition) -> str:
    """The tenant scope of a partition, by API 4."""
    return "account_catalog" if partition == CATALOGUE else f"selected_account:{partition[0]}"
