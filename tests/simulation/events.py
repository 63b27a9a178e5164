"""The events of a day, in order. A seed must always produce the same ones."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.sandbox.settings import FIRST_DAY

Partition = tuple[str, str]
CATALOGUE: Partition = ("", "")
SURFACES = ("stories", "posts")
_BEGINNING = datetime.fromtimestamp(FIRST_DAY, UTC)


def instant(seconds: float) -> datetime:
    """Return the date and time for a time of the loop in seconds."""
    return _BEGINNING + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class RequestSent:
    """A request was sent."""

    at: float
    partition: Partition
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """A response arrived; status 0 is a broken connection, and `whole` is false for a truncated body."""

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
class RequestCancelled:
    """The request was cancelled."""

    at: float
    partition: Partition


@dataclass(frozen=True, slots=True)
class PageLanded:
    """A page is durable; `recent`: it closes a recent scan. One without a valid or new cursor has no checkpoint."""

    at: float
    correlation_id: str | None
    recent: bool = False
    has_checkpoint: bool = True


@dataclass(frozen=True, slots=True)
class PageQuarantined:
    """An unreadable page is durably in quarantine."""

    at: float
    partition: Partition
    text: str


@dataclass(frozen=True, slots=True)
class ScanAbandoned:
    """A scan is durably marked as abandoned, so that it is not resumed."""

    at: float
    partition: Partition


@dataclass(frozen=True, slots=True)
class CooldownLanded:
    """A cooldown is durable."""

    at: float
    scope: str


Event = (
    RequestSent | ResponseReceived | RequestCancelled | PageLanded | PageQuarantined | ScanAbandoned | CooldownLanded
)


def scope_of(partition: Partition) -> str:
    """Return the rate-limit scope of a partition (API 4)."""
    return "account_catalog" if partition == CATALOGUE else f"selected_account:{partition[0]}"
