"""What scans need to know: the last closed scans of partitions, and the items that these have seen."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.statements import run
from models.incremental import ClosedScan
from models.partition import Partition, media

# The most known items of a feed that a scan receives: enough to recognize where they begin.
MOST_KNOWN = 1_000


def closed_scans(db: DuckDBPyConnection, account_ids: Collection[str]) -> Mapping[Partition, ClosedScan]:
    """Return the last closed scan of each feed of these accounts, as far as merged. Raises duckdb.Error."""
    rows = run(db, "k0_closed_scans", list(account_ids)).fetchall()
    return {media(account_id, surface): ClosedScan(*row) for account_id, surface, *row in rows}


def full_scans_due(db: DuckDBPyConnection, *, now: datetime, every: timedelta) -> list[tuple[float, int]]:
    """Return age, in refresh intervals, and pages of each full scan that is due, of active accounts."""
    found = [ClosedScan(*row) for row in run(db, "k1_ordered_scans").fetchall()]
    due = [scan for scan in found if scan.is_eligible and scan.is_full_due(now, every)]
    return [(scan.age(now, every), scan.pages) for scan in due]


def known_items(
    db: DuckDBPyConnection, closed: Mapping[Partition, ClosedScan], *, older_than: datetime
) -> Mapping[Partition, frozenset[str]]:
    """Return the ids of items published before `older_than` that these closed scans have seen.

    At most the newest 1,000 of each partition. Raises duckdb.Error.
    """
    accounts, surfaces = [one.account_id for one in closed], [one.surface for one in closed]
    seqs = [scan.seq for scan in closed.values()]
    rows = run(db, "k2_known_items", accounts, surfaces, seqs, older_than, MOST_KNOWN).fetchall()
    return {media(account_id, surface): frozenset(ids) for account_id, surface, ids in rows}
