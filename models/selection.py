"""What a run scans: the accounts and feeds that a person selects, and those that are due.

A feed of an account is due as often as it has something new, and within its freshness goal; the statement `dues` in
connectors/warehouse/queries/progress.sql decides when.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from models.feeds import CATALOGUE, LIFETIMES, SURFACES, Partition, media


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

    @property
    def feeds(self) -> list[Partition]:
        """Return its feeds that are scanned; of CATALOGUE_ACCOUNT the catalogue."""
        return [media(self.account_id, each) if each else CATALOGUE for each in self.surfaces]


CATALOGUE_ACCOUNT = ChosenAccount("", surfaces=("",))
"""The account of the catalogue, which is scanned as a feed is."""


class NothingChosen(Exception):  # noqa: N818 - having nothing to do is not an error
    """Nothing is due, or no account matches a backfill's selection: nothing was scanned, and no run was recorded."""


class SelectionError(Exception):
    """A selection of something that does not exist; the message is one line with the fix."""


HOUR, DAY = timedelta(hours=1), timedelta(days=1)

FRESH_WITHIN = "posts=1d,stories=6h"

EARLY = timedelta(minutes=30)
"""A run scans what is due within this time: for an hourly schedule, the next run would be further away."""

ALLOWANCE = DAY - EARLY
"""The requests of runs that began within this time count for a day: a nightly run may begin a little earlier."""

_LONGEST_GOAL = timedelta(days=366)
_NEVER = datetime.min.replace(tzinfo=UTC)
_UNITS = {"h": HOUR, "d": DAY}

Goals = Mapping[str, timedelta]
"""The freshness goal of each feed: the age that its last scan is to reach at most."""


class Due(NamedTuple):
    """When a feed is due, and why (models/views/due_scans.sql has the words); None: not before something changes."""

    at: datetime | None
    reason: str

    def is_due(self, now: datetime) -> bool:
        """Whether a run scans it now. What was not due until something changed is, if that is listed again."""
        return self.at is None or self.at <= now + EARLY


Dues = Mapping[Partition, Due]
"""When the catalogue, and each feed of the listed accounts, is due."""


def read_goals(text: str) -> Goals:
    """Return the goals that a text such as `1d` or `posts=2d,stories=6h` sets. Raises ValueError, with the fix.

    Feeds that it does not name have the goal without a name, by default a day; those whose items expire have at most a
    quarter of the lifetime.
    """
    found = dict[str, timedelta]()
    for part in text.split(","):
        written = re.fullmatch(rf"\s*(?:({'|'.join(SURFACES)})\s*=)?\s*(\d{{1,4}})([hd])\s*", part)
        goal = int(written[2]) * _UNITS[written[3]] if written else timedelta()
        if written is None or not HOUR <= goal <= _LONGEST_GOAL:
            raise ValueError(f"{part.strip()!r} is no goal; use one such as 1d, or {FRESH_WITHIN}, from 1h to 366d")
        found[written[1] or ""] = goal
    general = found.get("", DAY)
    goals = {}
    for surface in SURFACES:
        lifetime = LIFETIMES.get(surface, timedelta.max)
        goals[surface] = found.get(surface, min(general, lifetime / 4))
        if goals[surface] >= lifetime:
            fix = f"use one such as {surface}={lifetime // (4 * HOUR)}h"
            raise ValueError(f"{surface} expire after {lifetime // HOUR} h, so their goal must be shorter; {fix}")
    return goals


def keep_due(
    accounts: Iterable[ChosenAccount], dues: Dues, *, now: datetime, scan_expired: bool
) -> Iterator[ChosenAccount]:
    """Yield the listed accounts that are due, each with its surfaces that are.

    All are of an account that is not in `dues`, or whose token was renewed since these were read.
    """
    for account in accounts:
        found = {surface: dues.get(media(account.account_id, surface)) for surface in account.surfaces}
        surfaces = tuple(each for each, due in found.items() if due is None or due.is_due(now))
        if surfaces and (scan_expired or not account.is_expired):
            yield replace(account, surfaces=surfaces)


def sort_overdue(accounts: Iterable[ChosenAccount], dues: Dues) -> list[ChosenAccount]:
    """Return accounts, and the surfaces of each, the most overdue first, and before them what was never scanned.

    Otherwise one surface of an account could always use up all requests.
    """

    def since(account: ChosenAccount, surface: str) -> datetime:
        due = dues.get(media(account.account_id, surface))
        return _NEVER if due is None or due.at is None or due.reason == "first" else due.at

    ordered = (replace(one, surfaces=tuple(sorted(one.surfaces, key=partial(since, one)))) for one in accounts)
    return sorted(ordered, key=lambda one: since(one, one.surfaces[0]))
