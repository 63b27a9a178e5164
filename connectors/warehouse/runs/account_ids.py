"""The spelling of account ids, which are case-insensitive UUIDs (API 2): stored in lower case, requested as listed."""

import json
from collections.abc import Collection, Mapping

from connectors.warehouse.storage.connection import Connection

_LISTED_AS = "SELECT account_id, listed_as FROM core.accounts WHERE listed_as IS NOT NULL"

_STATUSES = (
    "SELECT account_id, status FROM core.accounts WHERE account_id IN (SELECT unnest(from_json(?, '[\"VARCHAR\"]')))"
)


def listed_spellings(connection: Connection) -> Mapping[str, str]:
    """Return the API's spelling of ids for which it differs from the stored one; usually there are none."""
    return dict(connection.db.execute(_LISTED_AS).fetchall())


def stored_statuses(connection: Connection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    return dict(connection.db.execute(_STATUSES, [json.dumps(list(account_ids))]).fetchall())
