"""What a run scans: the accounts and feeds that a person selects, and those that are due.

A feed of an account is due as often as it has something new, and within its freshness goal. The interval depends only
on what had been published when the last scan closed, so it does not change between two scans.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from models.feeds import LIFETIMES, SURFACES, Partition, media
from models.runs import REQUEST_BUDGET, OutcomeKind


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


HOUR, DAY = timedelta(hours=1), timedelta(days=1)

FRESH_WITHIN = "posts=1d,stories=6h"

EARLY = timedelta(minutes=30)
"""A run scans what is due within this time: for an hourly schedule, the next run would be further away."""

# A feed is scanned about so many times for each new item, as counted in a window of so many goals, or of four weeks. An
# item more or less changes the interval by at most a half.
_SCANS_AN_ITEM = 4
_LEAST_WINDOW = timedelta(days=28)

# An account without stories in this time has none.
_STORIES_WINDOW = timedelta(days=7)

# Longer, and stories would be lost that were published during an outage.
_LONGEST_RETRY = timedelta(hours=6)

_LONGEST_GOAL = timedelta(days=366)
_UNITS = {"h": HOUR, "d": DAY}

Goals = Mapping[str, timedelta]
"""The freshness goal of each feed: the age that its last scan is to reach at most."""


class DueReason(StrEnum):
    """Why a feed is due then.

    `FIRST`: it was never scanned. `RATE`: as often as it has something new. `GOAL`: the freshness goal is over.
    `QUIET`: it had nothing lately, and is looked at once a day. `RETRY`: its last scan failed, or was deferred, denied
    or not found. `TOKEN_EXPIRED`: it is not due.
    """

    FIRST = "first"
    RATE = "rate"
    GOAL = "goal"
    QUIET = "quiet"
    RETRY = "retry"
    TOKEN_EXPIRED = "token_expired"  # noqa: S105 - not a password


class Due(NamedTuple):
    """When a feed is due, and why; None: not before something changes."""

    at: datetime | None
    reason: DueReason

    def is_due(self, now: datetime) -> bool:
        """Whether a run scans it now. What was not due until something changed is, if that is listed again."""
        return self.at is None or self.at <= now + EARLY


Dues = Mapping[Partition, Due]
"""When the catalogue, and each feed of the listed accounts, is due."""


class History(NamedTuple):
    """What is known of a feed: when its account was first seen, and when its last scan closed, if any did.

    `new` counts the items that were published in the window before that. `outcome`, `error_code`, `tried_at` and
    `resume_after` are those of the last run that included it.
    """

    first_seen_at: datetime
    closed_at: datetime | None = None
    new: int = 0
    outcome: OutcomeKind | None = None
    error_code: str | None = None
    tried_at: datetime | None = None
    resume_after: datetime | None = None


def read_goals(text: str) -> Goals:
    """Return the goals that a text such as `1d` or `posts=2d,stories=6h` sets. Raises ValueError, with the fix.

    Feeds that it does not name have the goal without a name, by default a day; those whose items expire have at most a
    quarter of the lifetime.
    """
    found, goals = {}, {}
    for part in text.split(","):
        surface, is_named, span = part.rpartition("=")
        written = re.fullmatch(r"(\d{1,4})([hd])", span.strip())
        goal = int(written[1]) * _UNITS[written[2]] if written else timedelta()
        if not HOUR <= goal <= _LONGEST_GOAL or (is_named and surface.strip() not in SURFACES):
            raise ValueError(f"{part.strip()!r} is no goal; use one such as 1d, or {FRESH_WITHIN}, from 1h to 366d")
        found[surface.strip()] = goal
    general = found.get("", DAY)
    for surface in SURFACES:
        lifetime = LIFETIMES.get(surface)
        goals[surface] = found.get(surface, general if lifetime is None else min(general, lifetime / 4))
        if lifetime is not None and goals[surface] >= lifetime:
            fix = f"use one such as {surface}={lifetime // (4 * HOUR)}h"
            raise ValueError(f"{surface} expire after {lifetime // HOUR} h, so their goal must be shorter; {fix}")
    return goals


def window(surface: str, goals: Goals) -> timedelta:
    """Return the time before a closed scan in which new items are counted; 0 if the interval is the goal anyway."""
    if surface in LIFETIMES:
        return _STORIES_WINDOW
    return max(_LEAST_WINDOW, _SCANS_AN_ITEM * goals[surface]) if goals[surface] > DAY else timedelta()


def find_interval(surface: str, new: int, goals: Goals) -> tuple[timedelta, DueReason]:
    """Return the time from a closed scan to the next one of a feed with so many `new` items, and why.

    It is between a day, or the goal if that is shorter, and the goal; for a feed whose items expire, and that had none,
    a day.
    """
    # The catalogue has no goal of its own.
    goal = goals.get(surface, DAY)
    if surface in LIFETIMES and not new:
        return max(goal, DAY), DueReason.QUIET
    if goal <= DAY or (interval := window(surface, goals) / _SCANS_AN_ITEM / (new + 1)) >= goal:
        return goal, DueReason.GOAL
    return max(interval, DAY), DueReason.RATE


def decide_due(surface: str, history: History, goals: Goals) -> Due:
    """Return when a feed of an active account is due, or the catalogue, which has no surface.

    What failed is tried again after an hour, and then after as long as it has been overdue, at most six hours. What
    the service asked to wait for is tried again after that wait, and what it refused after a day.
    """
    at, reason = history.first_seen_at, DueReason.FIRST
    if history.closed_at is not None:
        interval, reason = find_interval(surface, history.new, goals)
        at = history.closed_at + interval
    tried_at = history.tried_at
    if tried_at is None or history.error_code == REQUEST_BUDGET:
        return Due(at, reason)
    match history.outcome:
        case OutcomeKind.DENIED | OutcomeKind.NOT_FOUND:
            wait = DAY
        case OutcomeKind.DEFERRED:
            # A person can lift a longer one; while it holds, the run asks for nothing.
            wait = min((history.resume_after or tried_at) - tried_at, DAY)
        case OutcomeKind.FAILED:
            wait = min(tried_at - at, _LONGEST_RETRY)
        case _:
            return Due(at, reason)
    return Due(tried_at + max(wait, HOUR), DueReason.RETRY)


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
    never = datetime.min.replace(tzinfo=UTC)

    def since(account: ChosenAccount, surface: str) -> datetime:
        due = dues.get(media(account.account_id, surface))
        return never if due is None or due.at is None or due.reason is DueReason.FIRST else due.at

    ordered = (
        replace(account, surfaces=tuple(sorted(account.surfaces, key=partial(since, account)))) for account in accounts
    )
    return sorted(ordered, key=lambda account: since(account, account.surfaces[0]))
