"""When the feeds of listed accounts are due: read from the warehouse or a snapshot, decided in models/selection.py."""

from datetime import UTC, datetime

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.statements import statements
from models.feeds import Partition
from models.runs import OutcomeKind
from models.selection import Due, DueReason, Dues, Goals, History, decide_due, window

_SQL = statements(__name__)


def read_dues(db: DuckDBPyConnection, goals: Goals, *, scan_expired: bool) -> Dues:
    """Return when the catalogue is due, and each feed of the listed accounts, as far as merged."""
    seconds = [window(surface, goals).total_seconds() for surface in goals]
    found = db.execute(_SQL["histories"], {"surfaces": [*goals], "windows": seconds})
    dues = dict[Partition, Due]()
    while row := found.fetchone():
        resource, account_id, surface, is_expired, first_seen_at, closed_at, new, outcome, code, tried_at, after = row
        kind = outcome and OutcomeKind(outcome)
        closed_at, tried_at, after = map(_in_utc, (closed_at, tried_at, after))
        history = History(first_seen_at.replace(tzinfo=UTC), closed_at, new, kind, code, tried_at, after)
        is_never = is_expired and not scan_expired
        due = Due(None, DueReason.TOKEN_EXPIRED) if is_never else decide_due(surface, history, goals)
        dues[Partition(resource, account_id, surface)] = due
    return dues


def _in_utc(at: datetime | None) -> datetime | None:
    return at and at.replace(tzinfo=UTC)
