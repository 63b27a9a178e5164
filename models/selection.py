"""The user's selection of what a backfill scans."""

from dataclasses import dataclass
from datetime import UTC, datetime

from models.feeds import SURFACES


@dataclass(frozen=True, slots=True)
class Selection:
    """The scans that a backfill repeats: `surfaces` of all accounts that at least one of the other fields selects.

    `accounts` are ids, names or public ids as typed. `everything`: every account in the catalogue. `expired_since`:
    accounts whose token was expired at any time since then. `failed`: exactly the scans that were incomplete when last
    tried.
    """

    accounts: tuple[str, ...] = ()
    everything: bool = False
    expired_since: datetime | None = None
    failed: bool = False
    surfaces: tuple[str, ...] = SURFACES

    def __str__(self) -> str:
        parts = sorted(set(self.accounts))
        if self.everything:
            parts.append("--all")
        if self.expired_since is not None:
            parts.append(f"--expired-since {self.expired_since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
        if self.failed:
            parts.append("--failed")
        surfaces = [surface for surface in SURFACES if surface in self.surfaces]
        return f"{', '.join(parts) or 'nothing'} ({', '.join(surfaces)})"


@dataclass(frozen=True, slots=True)
class ChosenAccount:
    """An account that a run scans: its id and `status` as the API writes them (API 2, 3), the surfaces to scan.

    An account with an unknown status is not scanned.
    """

    listed_as: str
    status: str = "active"
    surfaces: tuple[str, ...] = SURFACES
    username: str | None = None

    @property
    def account_id(self) -> str:
        """Return the id as it is stored; ids are case-insensitive (API 2)."""
        return self.listed_as.lower()

    @property
    def is_expired(self) -> bool:
        """Return whether its access token must be renewed."""
        return self.status == "token_expired"


class NothingChosen(Exception):  # noqa: N818 - having nothing to do is not an error
    """Nothing is due, or no account matches a backfill's selection: nothing was scanned, and no run was recorded."""


class SelectionError(Exception):
    """A selection of something that does not exist; the message is one line with the fix."""
