"""Queries of a snapshot for some accounts, as of a time."""

from collections.abc import Sequence
from datetime import datetime

from connectors.warehouse.queries.reader import Record, Snapshot
from connectors.warehouse.queries.selection import find_accounts
from connectors.warehouse.storage.errors import SnapshotUnreadable
from connectors.warehouse.storage.sql import statements
from models.feeds import SURFACES

# Of the time axes of a report.
WEEKS = 4

_SQL = statements(__name__)


class Reader:
    """Runs queries in an open snapshot, for some accounts and as of a time, `at`.

    The queries refer to the variables `made_at` (that time), `stale_after` (seconds), `surfaces` and `is_everything`,
    and to what reader.sql creates: `chosen`, the ids of the accounts; `fresh`, their rows of the view `freshness` with
    `is_overdue`; `last_outcomes`, the outcome of each partition in the last run of any kind that scanned it; and
    `reported`, the runs that have reported what they found.

    Raises SnapshotUnreadable, and SelectionError if the snapshot lacks one of the accounts.
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
        # No account has the empty id, with which a list without any has a type.
        ids = [*find_accounts(snapshot.db, accounts), ""]
        self.set(made_at=self.at, stale_after=self.published["stale_after"], surfaces=surfaces)
        self.set(is_everything=not accounts, account_ids=ids)
        for query in _SQL.values():
            self.records(query)

    def set(self, **variables: object) -> None:
        """Set variables of queries."""
        for name, value in variables.items():
            self.snapshot.query(f"SET VARIABLE {name} = ?", [value])

    def records(self, query: str) -> list[Record]:
        """Return a query's rows."""
        return self.snapshot.query(query)
