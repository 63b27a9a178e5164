"""The scope of a report, and its queries of the snapshot. Ages are relative to the time of the snapshot."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from connectors.warehouse.runs.failure_groups import grouped
from connectors.warehouse.snapshot.reader import Snapshot
from connectors.warehouse.storage.quoting import literal
from connectors.warehouse.storage.statements import statements
from flows.config.errors import SettingsError
from models.partition import Surface

Audience = Literal["operator", "analyst", "both"]
Record = dict[str, Any]

# In display order; a run scans stories first.
SURFACES: tuple[Surface, ...] = ("posts", "stories")

WEEKS = 4

# Accounts whose median post has fewer likes are excluded, because multiples of small numbers mean little. The other
# limit is the number of posts per account. Neither applies if the report is for selected accounts.
FEW_LIKES = 10
POSTS_PER_ACCOUNT = 3

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a report covers: `accounts` by name or id (empty: all), and the number of weeks on its time axes."""

    accounts: tuple[str, ...] = ()
    surfaces: tuple[Surface, ...] = SURFACES
    weeks: int = WEEKS
    audience: Audience = "both"


class Reader:
    """Runs the queries of reader.sql in an open snapshot, for the accounts and surfaces of a scope.

    Raises QueryError if this version cannot read the snapshot, and SettingsError if it lacks an account of the scope.
    """

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        self._snapshot = snapshot
        [self.published] = self.records("FROM published")
        self.at: datetime = self.published["snapshot_at"]
        midnight = self.at.replace(hour=0, minute=0, second=0, microsecond=0)
        # Literals, because DuckDB imports numpy for the first parameter in a process, which takes seconds.
        for name, value in {
            "made_at": f"TIMESTAMPTZ '{self.at.isoformat()}'",
            "since": f"TIMESTAMPTZ '{(midnight - timedelta(days=7 * scope.weeks - 1)).isoformat()}'",
            "surfaces": _list(scope.surfaces),
            "is_everything": str(not scope.accounts),
            "few_likes": str(0 if scope.accounts else FEW_LIKES),
            "posts_per_account": str(20 if scope.accounts else POSTS_PER_ACCOUNT),
        }.items():
            self.records(f"SET VARIABLE {name} = {value}")
        chosen = (
            f"SELECT unnest({_list(self._ids(scope.accounts))})"
            if scope.accounts
            else "SELECT account_id FROM accounts"
        )
        self.records(f"CREATE TEMP TABLE chosen AS {chosen}")
        for table in ("fresh", "days"):
            self.query(table)

    def _ids(self, wanted: Sequence[str]) -> list[str]:
        named = self.records("SELECT account_id, ig_username FROM accounts")
        found = {each[key]: each["account_id"] for each in named for key in ("account_id", "ig_username")}
        for each in wanted:
            if each not in found:
                near = difflib.get_close_matches(each, found, n=1)
                meant = f"did you mean {near[0]}?" if near else "`gramhouse accounts` lists them."
                message = f"--account: the snapshot has no account {each!r}; {meant}"
                raise SettingsError(message)
        return sorted({found[each] for each in wanted})

    def records(self, query: str) -> list[Record]:
        """Return a query's rows."""
        return self._snapshot.query(query).records()

    def query(self, name: str) -> list[Record]:
        """Run a query of reader.sql, and return its rows."""
        return self.records(_SQL[name])

    def causes(self) -> list[Record]:
        """Return the incomplete scans of the last 30 runs by cause."""
        return self.records(f"{grouped(_SQL['last_outcomes'])} LIMIT 20")


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(literal, values))}]"
