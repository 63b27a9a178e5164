"""The last closed scans of each partition: written by merges, read by scans."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import of_all_items
from models.feeds import SURFACES
from models.incremental import PROOFS, ClosedScan
from models.partition import Partition, media

NEWEST_FIRST = "newest_first"

# Without scans of feeds that are no longer declared.
_CLOSED = f"""
SELECT
    account_id, surface, seq, complete_at, greatest(complete_at, recent_at), pages,
    coalesce(item_order = '{NEWEST_FIRST}', false), full_share
FROM core.completed_scans
WHERE list_contains({list(SURFACES)}, surface)
"""  # noqa: S608 - constant names

# The most known items of a feed that a scan receives: enough to recognize where they begin.
_MOST_KNOWN = 1_000

# Items with higher landing numbers than the last closed scan are excluded. An open scan wrote them, and no scan has
# read from them down to known items yet.
_KNOWN = f"""
SELECT m.account_id, m.surface, arg_max(m.media_id, m.published_at, {_MOST_KNOWN})
FROM ({of_all_items("account_id, surface, media_id, published_at, removed_at, written_seq")}) AS m
JOIN (
    SELECT unnest(?::VARCHAR[]) AS account_id, unnest(?::VARCHAR[]) AS surface, unnest(?::BIGINT[]) AS seq
) AS w USING (account_id, surface)
WHERE m.removed_at IS NULL AND coalesce(m.written_seq, 0) <= w.seq AND m.published_at < ?
GROUP BY m.account_id, m.surface
"""  # noqa: S608 - constants


def closed_scans(connection: Connection, account_ids: Collection[str]) -> Mapping[Partition, ClosedScan]:
    """Return the last closed scan of each feed of these accounts, as far as merged."""
    query = f"{_CLOSED} AND account_id IN (SELECT unnest(?::VARCHAR[]))"
    rows = connection.db.execute(query, [list(account_ids)]).fetchall()
    return {media(account_id, surface): ClosedScan(*row) for account_id, surface, *row in rows}


def full_scans_due(connection: Connection, *, now: datetime, every: timedelta) -> list[tuple[float, int]]:
    """Return age (in refresh intervals) and pages of each full scan that is due, for active accounts."""
    accounts = "SELECT account_id FROM core.accounts WHERE removed_at IS NULL AND status = 'active'"
    is_due = f"item_order = '{NEWEST_FIRST}' AND complete_at <= ?::TIMESTAMPTZ - to_seconds(? * full_share)"
    query = f"{_CLOSED} AND account_id IN ({accounts}) AND {is_due}"
    rows = connection.db.execute(query, [now, every.total_seconds()]).fetchall()
    found = [ClosedScan(*row) for _, _, *row in rows]
    due = [scan for scan in found if scan.is_eligible and scan.is_full_due(now, every)]
    return [(scan.age(now, every), scan.pages) for scan in due]


def known_items(
    connection: Connection, closed: Mapping[Partition, ClosedScan], *, older_than: datetime
) -> Mapping[Partition, frozenset[str]]:
    """Return the ids of items published before `older_than` that these closed scans have seen.

    At most the newest 1,000 of each partition.
    """
    accounts, surfaces = [one.account_id for one in closed], [one.surface for one in closed]
    seqs = [scan.seq for scan in closed.values()]
    rows = connection.db.execute(_KNOWN, [accounts, surfaces, seqs, older_than]).fetchall()
    return {media(account_id, surface): frozenset(ids) for account_id, surface, ids in rows}


def forget_order(connection: Connection) -> None:
    """Make the next scan of each feed in order a full one, because the mapping of times or ids has changed."""
    db = connection.db
    db.execute(
        "UPDATE core.completed_scans SET item_order = NULL, recent_at = NULL, covered_from = NULL,"  # noqa: S608 - constants
        f" order_proofs = greatest(order_proofs, {PROOFS})"
    )
