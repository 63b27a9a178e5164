"""The last closed scans of each partition: written by merges, read by scans."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from connectors.warehouse.storage.connection import Connection
from models.incremental import PROOFS, ClosedScan

NEWEST_FIRST = "newest_first"

_CLOSED = f"""
SELECT
    w.account_id, w.seq, w.complete_at, greatest(w.complete_at, w.recent_at), w.pages,
    coalesce(w.item_order = '{NEWEST_FIRST}', false), w.full_share
FROM core.completed_scans AS w
WHERE w.resource = 'media' AND w.surface = 'posts'
"""  # noqa: S608 - constant names

# The most known posts of an account that a scan receives: enough to recognize where they begin.
_MOST_KNOWN = 1_000

# Posts with higher landing numbers than the last closed scan are excluded. An open scan wrote them, and no scan has
# read from them down to known posts yet.
_KNOWN = f"""
SELECT m.account_id, arg_max(m.media_id, m.published_at, {_MOST_KNOWN})
FROM core.media AS m
JOIN (SELECT unnest(?::VARCHAR[]) AS account_id, unnest(?::BIGINT[]) AS seq) AS w USING (account_id)
WHERE m.surface = 'posts' AND m.removed_at IS NULL AND coalesce(m.written_seq, 0) <= w.seq AND m.published_at < ?
GROUP BY m.account_id
"""  # noqa: S608 - constants


def closed_scans(connection: Connection, account_ids: Collection[str]) -> Mapping[str, ClosedScan]:
    """Return the last closed scan of each of these accounts' posts, as far as merged."""
    rows = connection.db.execute(f"{_CLOSED} AND w.account_id IN (SELECT unnest(?::VARCHAR[]))", [list(account_ids)])
    return {account_id: ClosedScan(*row) for account_id, *row in rows.fetchall()}


def full_scans_due(connection: Connection, *, now: datetime, every: timedelta) -> list[tuple[float, int]]:
    """Return age (in refresh intervals) and pages of each full scan of posts that is due, for active accounts."""
    accounts = "SELECT account_id FROM core.accounts WHERE removed_at IS NULL AND status = 'active'"
    is_due = f"w.item_order = '{NEWEST_FIRST}' AND w.complete_at <= ?::TIMESTAMPTZ - to_seconds(? * w.full_share)"
    query = f"{_CLOSED} AND w.account_id IN ({accounts}) AND {is_due}"
    rows = connection.db.execute(query, [now, every.total_seconds()]).fetchall()
    found = [ClosedScan(*row) for _, *row in rows]
    due = [scan for scan in found if scan.is_eligible and scan.is_full_due(now, every)]
    return [(scan.age(now, every), scan.pages) for scan in due]


def waiting_since(connection: Connection, account_ids: Collection[str]) -> Mapping[tuple[str, str], datetime]:
    """Return when a scan was last closed, by account and surface; partitions without a closed scan are left out."""
    query = """
SELECT account_id, surface, greatest(complete_at, recent_at) FROM core.completed_scans
WHERE resource = 'media' AND account_id IN (SELECT unnest(?::VARCHAR[]))
"""
    rows = connection.db.execute(query, [list(account_ids)]).fetchall()
    return {(account_id, surface): closed_at for account_id, surface, closed_at in rows}


def known_posts(
    connection: Connection, closed: Mapping[str, ClosedScan], *, older_than: datetime
) -> Mapping[str, frozenset[str]]:
    """Return the ids of posts published before `older_than` that these closed scans have seen, by account.

    At most the newest 1,000 of each account.
    """
    seqs = [scan.seq for scan in closed.values()]
    rows = connection.db.execute(_KNOWN, [list(closed), seqs, older_than]).fetchall()
    return {account_id: frozenset(ids) for account_id, ids in rows}


def forget_order(connection: Connection) -> None:
    """Make the next scan of each account's posts a full one, because the mapping of times or ids has changed."""
    db = connection.db
    db.execute(
        "UPDATE core.completed_scans SET item_order = NULL, recent_at = NULL, covered_from = NULL,"  # noqa: S608 - constants
        f" order_proofs = greatest(order_proofs, {PROOFS}) WHERE surface = 'posts'"
    )
    db.execute("UPDATE ops.checkpoints SET order_broken_by = '', known_seq = NULL WHERE surface = 'posts'")
