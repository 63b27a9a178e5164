"""The spelling of account ids, which are case-insensitive UUIDs (API 2): one is stored, requests use the API's."""

import json
from collections.abc import Collection, Mapping

from connectors.warehouse.storage.connection import Connection

# New accounts are stored in lower case; accounts from older versions keep their spelling. If both spellings of an id
# are stored, the one that was listed last is used.
STORED_IDS = """
SELECT lower(account_id) AS uuid, arg_max(account_id, (removed_at IS NULL, last_seen_at, account_id)) AS account_id
FROM core.accounts GROUP BY uuid
"""

_UNUSUAL = f"SELECT uuid, account_id FROM ({STORED_IDS}) WHERE account_id <> uuid"  # noqa: S608 - constants

_LISTED_AS = "SELECT account_id, listed_as FROM core.accounts WHERE listed_as IS NOT NULL"

_STATUSES = (
    "SELECT account_id, status FROM core.accounts WHERE account_id IN (SELECT unnest(from_json(?, '[\"VARCHAR\"]')))"
)


def unusual_spellings(connection: Connection) -> Mapping[str, str]:
    """Return the ids that are not stored in lower case, by their lower-case spelling; usually there are none."""
    return dict(connection.db.execute(_UNUSUAL).fetchall())


def listed_spellings(connection: Connection) -> Mapping[str, str]:
    """Return the API's spelling of ids for which it differs from the stored one; usually there are none."""
    return dict(connection.db.execute(_LISTED_AS).fetchall())


def stored_statuses(connection: Connection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    return dict(connection.db.execute(_STATUSES, [json.dumps(list(account_ids))]).fetchall())
