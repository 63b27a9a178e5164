"""Queries of a snapshot for some accounts, as of a time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from connectors.warehouse.queries.outcomes import FailureGroup, read_failures
from connectors.warehouse.queries.reader import Snapshot
from connectors.warehouse.queries.selection import NAMES, as_name
from connectors.warehouse.storage.errors import SnapshotUnreadable
from connectors.warehouse.storage.quoting import literal
from connectors.warehouse.storage.statements import statements
from flows.config.errors import SettingsError
from models.feeds import SURFACES
from models.text import nearest

Record = dict[str, Any]

# Of the time axes of a report.
WEEKS = 4

_SQL = statements(__name__)


class Reader:
    """Runs queries in an open snapshot.

    The queries refer to the variables `made_at` (the time as of which they answer), `stale_after` (seconds),
    `surfaces` and `is_everything`,
    to the temporary tables `chosen`, the ids of the accounts that are covered, and `fresh`, their rows of the view
    `freshness` with the column `is_overdue`, to `last_outcomes`, the outcome of each partition in the last run of
    any kind that scanned it, and to `reported`, the runs that have reported what they found.

    Raises SnapshotUnreadable, and SettingsError if the snapshot lacks one of the accounts.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        accounts: Sequence[str] = (),
        *,
        surfaces: Sequence[str] = SURFACES,
        now: datetime | None = None,
    ) -> None:
        """Answer for these accounts (ids, names or public ids; empty: all), as of `now` or the time of the snapshot."""
        self._snapshot = snapshot
        # Refuses a file of another program, whose view has other columns.
        published = self.records("FROM published WHERE snapshot_at IS NOT NULL AND stale_after IS NOT NULL")
        if not published:
            raise SnapshotUnreadable("published has no row, so this is not a snapshot of gramhouse.")
        [self.published] = published
        self.at: datetime = now or self.published["snapshot_at"]
        self.set(
            made_at=self.at,
            stale_after=self.published["stale_after"],
            surfaces=surfaces,
            is_everything=not accounts,
            account_ids=self._ids(accounts),
        )
        for query in _SQL.values():
            self.records(query)

    def _ids(self, wanted: Sequence[str]) -> list[str]:
        """Return the ids of these accounts: of a name, all accounts that have it."""
        if not wanted:
            return []
        found: dict[str, set[str]] = {}
        query = f"FROM (SELECT account_id, unnest([{NAMES}]) AS name FROM accounts) WHERE name IS NOT NULL"  # noqa: S608
        for account_id, name in self._snapshot.query(query).rows:
            found.setdefault(name, set()).add(account_id)
        ids: set[str] = set()
        for each in wanted:
            if (name := as_name(each)) not in found:
                raise SettingsError(
                    f"--account: the snapshot has no account {each!r}. {nearest(name, found)}"
                    "Fix: `gramhouse accounts` lists all."
                )
            ids |= found[name]
        return sorted(ids)

    def set(self, **variables: object) -> None:
        """Set variables of queries."""
        # Literals, because DuckDB imports numpy for the first parameter in a process, which takes seconds.
        for name, value in variables.items():
            self.records(f"SET VARIABLE {name} = {_literal(value)}")

    def records(self, query: str) -> list[Record]:
        """Return a query's rows."""
        return self._snapshot.query(query).records()

    def failure_groups(self, outcomes: str) -> tuple[FailureGroup, ...]:
        """Return the incomplete outcomes of a query for rows of `run_outcomes`, by cause."""
        return read_failures(self._snapshot.db, outcomes, now=self.at)


def _literal(value: object) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{value.isoformat()}'"
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, float):
        # Otherwise it is a DECIMAL, which is text in JSON.
        return f"{value}::DOUBLE"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_literal, value))}]::VARCHAR[]"
    return "NULL" if value is None else str(value)
