"""What merged pages say about unfinished scans, and the accounts that the catalogue has listed."""

from collections.abc import Collection, Mapping, Sequence

from connectors.warehouse.storage.connection import Connection

# The most items that a scan remembers (`Progress` in connectors/source/pagination.py).
_MOST_SEEN = 100_000

_SEEN = f"""
SELECT media_id FROM ops.seen WHERE scan_id = $1 AND media_id <> ''
UNION ALL
SELECT coalesce(listed_as, account_id) FROM core.accounts WHERE scan_id = $1
LIMIT {_MOST_SEEN}
"""  # noqa: S608 - a constant

_LISTED = """
SELECT account_id, status, listed_as, unknown_status FROM core.accounts WHERE scan_id = ? ORDER BY account_id
"""

_SPELLINGS = "SELECT account_id, listed_as FROM core.accounts WHERE listed_as IS NOT NULL"

_STATUSES = "SELECT account_id, status FROM core.accounts WHERE account_id IN (SELECT unnest(?::VARCHAR[]))"


def seen(connection: Connection, scan_id: str) -> Sequence[str]:
    """Return the ids, as the API wrote them, of the items that an unfinished scan has received in merged pages."""
    return [item_id for (item_id,) in connection.db.execute(_SEEN, [scan_id]).fetchall()]


def listed(connection: Connection, scan_id: str) -> list[tuple[str, str, str | None, str | None]]:
    """Return the accounts that a scan of the catalogue has listed, as far as merged.

    For each: its id, its status, the API's spelling of the id if it differs, and the listed status if it is unknown.
    """
    return connection.db.execute(_LISTED, [scan_id]).fetchall()


def listed_spellings(connection: Connection) -> Mapping[str, str]:
    """Return the API's spelling of ids for which it differs from the stored one; usually there are none."""
    return dict(connection.db.execute(_SPELLINGS).fetchall())


def stored_statuses(connection: Connection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    return dict(connection.db.execute(_STATUSES, [list(account_ids)]).fetchall())
