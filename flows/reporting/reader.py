"""Queries of a snapshot for some accounts, as of a time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

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
    """Runs queries in an open snapshot, for some accounts and as of a time, `at`.

    The queries refer to the variables `made_at` (that time), `stale_after` (seconds), `surfaces` and `is_everything`,
    and to what reader.sql creates: `chosen`, the ids of the accounts; `fresh`, their rows of the view `freshness` with
    `is_overdue`; `last_outcomes`, the outcome of each partition in the last run of any kind that scanned it; and
    `reported`, the runs that have reported what they found.

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
        self.snapshot = snapshot
        # Refuses a file of another program, whose view has other columns.
        published = self.records("FROM published WHERE snapshot_at IS NOT NULL AND stale_after IS NOT NULL")
        if not published:
            raise SnapshotUnreadable("published has no row, so this is not a snapshot of gramhouse.")
        [self.published] = published
        self.at: datetime = now or self.published["snapshot_at"]
        ids = [each for wanted in accounts for each in self._find(wanted)]
        self.set(made_at=self.at, stale_after=self.published["stale_after"], surfaces=surfaces)
        self.set(is_everything=not accounts, account_ids=ids)
        for query in _SQL.values():
            self.records(query)

    def _find(self, wanted: str) -> list[str]:
        """Return the ids of the accounts that have a name, or this id."""
        name, named = as_name(wanted), f"FROM (SELECT account_id, unnest([{NAMES}]) AS name FROM accounts)"  # noqa: S608
        if found := self.records(f"SELECT DISTINCT account_id {named} WHERE name = {literal(name)}"):
            return [each["account_id"] for each in found]
        known = [each["name"] for each in self.records(f"{named} WHERE name IS NOT NULL")]
        meant = nearest(name, known)
        fix = "Fix: `gramhouse accounts` lists all."
        raise SettingsError(f"--account: the snapshot has no account {wanted!r}. {meant}{fix}")

    def set(self, **variables: object) -> None:
        """Set variables of queries."""
        # Literals, because DuckDB imports numpy for the first parameter in a process, which takes seconds.
        for name, value in variables.items():
            self.records(f"SET VARIABLE {name} = {_literal(value)}")

    def records(self, query: str) -> list[Record]:
        """Return a query's rows."""
        return self.snapshot.query(query).records()


def _literal(value: object) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMPTZ '{value.isoformat()}'"
    if isinstance(value, float):
        # Otherwise it is a DECIMAL, which is text in JSON.
        return f"{value}::DOUBLE"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(literal, value))}]::VARCHAR[]"
    return "NULL" if value is None else str(value)
