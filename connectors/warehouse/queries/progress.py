"""What scans need to know of merged pages: what was listed, the last closed scans, and when feeds are due again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import statements
from models.checkpoint import Checkpoint, ClosedScan
from models.feeds import LIFETIMES, Partition, media
from models.selection import DAY, Due, Dues, Goals

_SQL = statements(__name__)

# The most items that a scan remembers (connectors/source/messages.py).
_MOST_SEEN = 100_000

# The most known items of a feed that a scan receives: enough to recognize where they begin.
_MOST_KNOWN = 1_000


def find_seen_ids(db: DuckDBPyConnection, scan: Checkpoint) -> Sequence[str]:
    """Return the ids, as the API wrote them, of what an unfinished scan has received in merged pages."""
    partition = scan.partition
    if partition.account_id:
        of_scan = [partition.account_id, partition.surface, scan.began_seq, scan.updated_at, _MOST_SEEN]
        return [media_id for (media_id,) in db.execute(_SQL["seen_items"], of_scan).fetchall()]
    return [listed_as for listed_as, _ in find_listed_accounts(db, scan)[:_MOST_SEEN]]


def find_listed_accounts(db: DuckDBPyConnection, scan: Checkpoint) -> list[tuple[str, str]]:
    """Return the accounts that a scan of the catalogue has listed, as far as merged: id as the API wrote it, status."""
    return db.execute(_SQL["listed_accounts"], [scan.began_seq]).fetchall()


def read_statuses(db: DuckDBPyConnection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    return dict(db.execute(_SQL["statuses"], [list(account_ids)]).fetchall())


def read_closed_scans(db: DuckDBPyConnection, account_ids: Collection[str]) -> Mapping[Partition, ClosedScan]:
    """Return the last closed scan of each feed of these accounts, as far as merged. Raises duckdb.Error."""
    rows = db.execute(_SQL["closed_scans"], [list(account_ids)]).fetchall()
    return {media(account_id, surface): ClosedScan(*row) for account_id, surface, *row in rows}


@dataclass(frozen=True, slots=True)
class Cost:
    """What is known of a feed that says how many requests its next scan takes.

    `items` are those that are listed, `young` those within the lookback window. `recent_pages` is the number of pages
    of the last recent scan, 0 without one.
    """

    items: int = 0
    young: int = 0
    recent_pages: int = 0


def find_costs(
    db: DuckDBPyConnection, account_ids: Collection[str], *, older_than: datetime
) -> Mapping[Partition, Cost]:
    """Return what the feeds of these accounts cost; items are young unless published before `older_than`."""
    rows = db.execute(_SQL["costs"], [list(account_ids), older_than]).fetchall()
    return {media(account_id, surface): Cost(*row) for account_id, surface, *row in rows}


def read_catalogue_pages(db: DuckDBPyConnection) -> int:
    """Return the pages of the last scan of the catalogue; 1 before any."""
    rows = db.execute("SELECT pages FROM core.closed_scans WHERE resource = 'accounts'").fetchall()
    return int(rows[0][0]) if rows else 1


def find_known_items(
    db: DuckDBPyConnection, closed: Mapping[Partition, ClosedScan], *, older_than: datetime
) -> Mapping[Partition, frozenset[str]]:
    """Return the ids of items published before `older_than` that these closed scans have seen.

    At most the newest 1,000 of each partition. Raises duckdb.Error.
    """
    accounts, surfaces = [one.account_id for one in closed], [one.surface for one in closed]
    seqs = [scan.seq for scan in closed.values()]
    rows = db.execute(_SQL["known_items"], [accounts, surfaces, seqs, older_than, _MOST_KNOWN]).fetchall()
    return {media(account_id, surface): frozenset(ids) for account_id, surface, ids in rows}


def read_dues(db: DuckDBPyConnection, goals: Goals, *, scan_expired: bool) -> Dues:
    """Return when the catalogue is due, and each feed of the listed accounts, as far as merged."""
    found, dues = db.execute(*query_dues(goals, scan_expired=scan_expired)), dict[Partition, Due]()
    while row := found.fetchone():
        *partition, at, reason = row
        dues[Partition(*partition)] = Due(at and at.replace(tzinfo=UTC), reason)
    return dues


def query_dues(goals: Goals, *, scan_expired: bool) -> tuple[str, Mapping[str, object]]:
    """Return the query for what is due when, with its parameters: partition, `due_at` without a zone, `due_reason`."""
    microseconds = timedelta(microseconds=1)
    return _SQL["dues"], {
        "surfaces": [*goals],
        "goals": [goal // microseconds for goal in goals.values()],
        "expires": [surface in LIFETIMES for surface in goals],
        "day": DAY // microseconds,
        "scan_expired": scan_expired,
    }
