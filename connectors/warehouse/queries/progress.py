"""What merged pages say about unfinished scans, and the accounts that the catalogue has listed."""

from collections.abc import Collection, Mapping, Sequence

from duckdb import DuckDBPyConnection

from models.checkpoint import Checkpoint

# The most items that a scan remembers (`LoopGuard` in connectors/source/pagination.py).
_MOST_SEEN = 100_000

_ITEMS = f"""
SELECT media_id FROM core.media WHERE account_id = ? AND surface = ? AND seen_seq >= ? LIMIT {_MOST_SEEN}
"""  # noqa: S608 - a constant

_ACCOUNTS = f"""
SELECT listed_as FROM core.accounts WHERE seen_seq >= ? LIMIT {_MOST_SEEN}
"""  # noqa: S608 - a constant

_STATUSES = "SELECT account_id, status FROM core.accounts WHERE account_id IN (SELECT unnest(?::VARCHAR[]))"


def seen(db: DuckDBPyConnection, scan: Checkpoint) -> Sequence[str]:
    """Return the ids, as the API wrote them, of what an unfinished scan has received in merged pages."""
    partition = scan.partition
    if partition.account_id:
        rows = db.execute(_ITEMS, [partition.account_id, partition.surface, scan.began_seq])
    else:
        rows = db.execute(_ACCOUNTS, [scan.began_seq])
    return [record_id for (record_id,) in rows.fetchall()]


def listed(db: DuckDBPyConnection, scan: Checkpoint) -> list[tuple[str, str]]:
    """Return the accounts that a scan of the catalogue has listed, as far as merged: id as the API wrote it, status."""
    query = "SELECT listed_as, status FROM core.accounts WHERE seen_seq >= ? ORDER BY account_id"
    return db.execute(query, [scan.began_seq]).fetchall()


def listed_spellings(db: DuckDBPyConnection) -> Mapping[str, str]:
    """Return the API's spelling of ids for which it differs from the stored one; usually there are none."""
    query = "SELECT account_id, listed_as FROM core.accounts WHERE listed_as <> account_id"
    return dict(db.execute(query).fetchall())


def stored_statuses(db: DuckDBPyConnection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    return dict(db.execute(_STATUSES, [list(account_ids)]).fetchall())
