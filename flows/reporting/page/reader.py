"""The scope of a report, and its queries of the snapshot. Ages are relative to the time of the snapshot."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

from connectors.warehouse.snapshot.reader import Snapshot
from connectors.warehouse.storage.quoting import literal
from flows.config.errors import SettingsError
from flows.reporting.page.html import Child, Html, element, foreign, join
from models.partition import Surface

Audience = Literal["operator", "analyst", "both"]
Record = Mapping[str, Any]

# In display order; a run scans stories first.
SURFACES: tuple[Surface, ...] = ("posts", "stories")

WEEKS = 4

# Minutes.
_HOUR = 60
_DAY = 24 * _HOUR

# The maximum number of accounts in the page's filter; a longer list would be useless.
_FILTERED = 300


@dataclass(frozen=True, slots=True)
class Scope:
    """What a report covers: `accounts` by name or id (empty: all), and the number of weeks on its time axes."""

    accounts: tuple[str, ...] = ()
    surfaces: tuple[Surface, ...] = SURFACES
    weeks: int = WEEKS
    audience: Audience = "both"


_FRESH = """
SELECT account_id, ig_username, surface, complete_at, outcome, error_code, resume_after, last_tried_at, stale_at,
    coalesce(stale_at < {at}, false) AS is_stale
FROM freshness WHERE {only} AND surface IN {surfaces}
"""


# A day without a complete or partial run has no data: it is shown as a gap, not as zero.
_OBSERVED = """
SELECT DISTINCT (ended_at AT TIME ZONE 'UTC')::DATE AS day FROM runs
WHERE state IN ('complete', 'partial') AND kind <> 'totals' AND ended_at >= {since}
"""


class Reader:
    """Queries an open snapshot, restricted to the scope's accounts and surfaces.

    A query may contain the placeholders `{only}` (the condition on accounts), `{surfaces}` (the list of surfaces),
    `{at}` (the time of the snapshot) and `{since}` (the first midnight covered, UTC). `m.{only}` is the condition on
    the table with the alias m.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        self.scope = scope
        self._snapshot = snapshot
        [self.published] = snapshot.query("FROM published").records()
        self.at: datetime = self.published["snapshot_at"]
        self.days = scope.weeks * 7
        midnight = self.at.replace(hour=0, minute=0, second=0, microsecond=0)
        self.since = midnight - timedelta(days=self.days - 1)
        self._keys: dict[str, str] = {}
        self._prepared: set[str] = set()
        self._only = "account_id IN (FROM chosen)" if scope.accounts else "account_id IS NOT NULL"
        if scope.accounts:
            self._choose(scope.accounts)
        self.prepare("fresh", _FRESH)

    def _choose(self, wanted: Sequence[str]) -> None:
        named = self._snapshot.query("SELECT account_id, ig_username FROM accounts").rows
        found = {key: account_id for account_id, name in named for key in (account_id, name)}
        for each in wanted:
            if each not in found:
                near = difflib.get_close_matches(each, found, n=1)
                meant = f"did you mean {near[0]}?" if near else "`gramhouse accounts` lists them."
                message = f"--account: the snapshot has no account {each!r}; {meant}"
                raise SettingsError(message)
        ids = sorted({found[each] for each in wanted})
        # No parameters, here and below: DuckDB imports numpy for the first one in a process, which takes seconds.
        self._snapshot.query(
            f"CREATE TEMP TABLE chosen AS SELECT unnest([{', '.join(map(literal, ids))}]) AS account_id"
        )

    def records(self, query: str) -> list[Record]:
        """Return a query's rows. Raises QueryError."""
        surfaces = "(" + ", ".join(f"'{surface}'" for surface in self.scope.surfaces) + ")"
        for name, text in (
            ("{only}", self._only),
            ("{surfaces}", surfaces),
            ("{at}", f"TIMESTAMPTZ '{self.at.isoformat()}'"),
            ("{since}", f"TIMESTAMPTZ '{self.since.isoformat()}'"),
        ):
            query = query.replace(name, text)
        return [*self._snapshot.query(query).records()]

    def prepare(self, table: str, query: str) -> None:
        """Store a query's rows as a temporary table, unless it already exists. Raises QueryError."""
        if table not in self._prepared:
            self._prepared.add(table)
            self.records(f"CREATE TEMP TABLE {table} AS {query}")

    def one(self, query: str) -> Record:
        """Return the only row of a query."""
        [record] = self.records(query)
        return record

    def has(self, surface: Surface) -> bool:
        """Return whether the report covers a surface."""
        return surface in self.scope.surfaces

    @property
    def calendar(self) -> tuple[date, ...]:
        """Return the days of the time axes."""
        return tuple((self.since + timedelta(days=day)).date() for day in range(self.days))

    def observed(self) -> set[date]:
        """Return the covered days on which a complete or partial run ended."""
        return {each["day"] for each in self.records(_OBSERVED)}

    def age(self, moment: datetime | None, none: str = "never") -> Child:
        """Return a time, and its age relative to the snapshot."""
        if moment is None:
            return none
        return join([stamp(moment), " ", element("small", f"{roughly(self.at - moment)} ago")])

    def key(self, account: str) -> str | None:
        """Return the key by which the page's filter selects an account's rows; None if the filter's list is full."""
        if account not in self._keys and len(self._keys) < _FILTERED:
            self._keys[account] = f"a{len(self._keys)}"
        return self._keys.get(account)

    @property
    def filtered(self) -> Mapping[str, str]:
        """Return the accounts that have rows, each with its key."""
        return self._keys


def roughly(length: timedelta) -> str:
    """Return a duration in one unit, easy to compare in a column: 40 min, 6 h, 12 days."""
    minutes = max(int(length.total_seconds() // 60), 0)
    if minutes < _HOUR:
        return f"{minutes} min"
    return f"{minutes // _HOUR} h" if minutes < 2 * _DAY else f"{minutes // _DAY:,} days"


def stamp(moment: datetime) -> Html:
    """Return a time to the minute, UTC."""
    return element("time", f"{moment:%Y-%m-%d %H:%M}", datetime=f"{moment:%Y-%m-%dT%H:%MZ}")


def day_label(day: date, *, first: bool) -> str:
    """Return the label of a day on an axis, with its month; empty except for Mondays and the first day."""
    return f"{day.day} {day:%b}" if day.weekday() == 0 or first else ""


def account(name: str | None) -> Html:
    """Return an account's name as an element."""
    return element("span", foreign(name, 30) or "(unknown)", class_="who")
