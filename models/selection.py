"""What a backfill is asked to scan, as a person says it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from models.partition import SURFACES, Surface


@dataclass(frozen=True, slots=True)
class Selection:
    """The scans a backfill makes again: the accounts that any of its parts names, on `surfaces`.

    `accounts` are ids or usernames as typed. `everything`: every account that is listed. `expired_since`: those whose
    token was expired at any time since then. `failed`: exactly the scans that are incomplete
    when a run last turned to them.
    """

    accounts: tuple[str, ...] = ()
    everything: bool = False
    expired_since: datetime | None = None
    failed: bool = False
    surfaces: tuple[Surface, ...] = SURFACES

    def __str__(self) -> str:
        parts = sorted(set(self.accounts))
        if self.everything:
            parts.append("all accounts")
        if self.expired_since is not None:
            parts.append(f"expired since {self.expired_since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
        if self.failed:
            parts.append("incomplete scans")
        surfaces = [surface for surface in SURFACES if surface in self.surfaces]
        return f"{', '.join(parts) or 'nothing'}: {' and '.join(surfaces)}"


@dataclass(frozen=True, slots=True)
class ChosenAccount:
    """An account of a selection, with the surfaces to scan; `pages` is about how many requests they take."""

    account_id: str
    ig_username: str
    expired: bool
    surfaces: tuple[Surface, ...]
    pages: int


class SelectionError(Exception):
    """A selection that names what is not there; one line with the fix."""
