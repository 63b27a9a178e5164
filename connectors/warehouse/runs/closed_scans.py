"""The last closed scans of each partition: written by merges, read by scans."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import Connection
from models.incremental import PROOFS, PROOFS_AGAIN, ClosedScan

NEWEST_FIRST = "newest_first"

# A fraction in (0, 1] that differs by account, so that the next full scans are not all due on the same day.
_SPREAD = "(1 + ('0x' || md5(account_id)[1:8])::BIGINT) / 4294967296.0"

_FORGET = """
DELETE FROM core.completed_scans AS s USING finished AS f
WHERE s.resource = f.resource AND s.account_id = f.account_id AND s.surface = f.surface
"""

# A recent scan updates only the range that it covered. A full scan also decides whether the feed is in order.
_RECORD = """
INSERT INTO core.completed_scans BY NAME
WITH ordered AS (
    SELECT
        *,
        CASE
            WHEN is_recent THEN before.proofs
            WHEN surface <> 'posts' OR latest.read_to IS NULL AND latest.broken_by IS NULL
                THEN coalesce(before.proofs, {proofs})
            WHEN latest.broken_by IS NOT NULL THEN {proofs_again}
            ELSE greatest(coalesce(before.proofs, {proofs}) - 1, 0)
        END AS order_proofs
    FROM finished
)
SELECT
    resource, account_id, surface, seq, order_proofs,
    if(is_recent, before.scan_id, scan_id) AS scan_id,
    if(is_recent, before.complete_at, complete_at) AS complete_at,
    if(is_recent, complete_at, NULL) AS recent_at,
    covered_from,
    if(is_recent, before.pages, latest.pages) AS pages,
    if(is_recent, before.items, latest.items) AS items,
    CASE
        WHEN is_recent THEN before.item_order
        WHEN order_proofs = 0 AND latest.read_to IS NOT NULL AND latest.broken_by IS NULL THEN '{newest_first}'
    END AS item_order,
    if(is_recent, before.broken_by, latest.broken_by) AS order_broken_by,
    if(is_recent, before.full_share, coalesce(latest.full_share, {spread})) AS full_share,
    CASE
        WHEN {undecided} THEN coalesce(undecided_before, complete_at)
        WHEN is_recent AND (account_id, surface) IN (
            SELECT (account_id, surface) FROM ops.missing WHERE missing_since IS NULL
        ) THEN undecided_before
    END AS removals_undecided_since
FROM ordered
"""


def close_scans(db: DuckDBPyConnection, missed: str | None) -> None:
    """Replace the last closed scans of partitions by the scans in `finished`, in the open transaction of a merge.

    `missed` is a relation with the items that these scans did not list: `scan_id`, and `has_rejected` of the scan.
    """
    db.execute(_FORGET)
    undecided = "false" if missed is None else f"scan_id IN (SELECT scan_id FROM {missed} WHERE has_rejected)"  # noqa: S608
    db.execute(
        _RECORD.format(
            undecided=undecided,
            proofs=PROOFS,
            proofs_again=PROOFS_AGAIN,
            newest_first=NEWEST_FIRST,
            spread=_SPREAD,
        )
    )


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
