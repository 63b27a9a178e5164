"""The spelling of account ids, which are case-insensitive UUIDs (API 2): stored in lower case, requested as listed."""

from collections.abc import Collection, Mapping

from sqlalchemy import select

from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import among, run
from models.tables import core_accounts

_of_account = core_accounts.c


def listed_spellings(connection: Connection) -> Mapping[str, str]:
    """Return the API's spelling of ids for which it differs from the stored one; usually there are none."""
    query = select(_of_account.account_id, _of_account.listed_as).where(_of_account.listed_as.is_not(None))
    return dict(run(connection, query).fetchall())


def stored_statuses(connection: Connection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    query = select(_of_account.account_id, _of_account.status).where(among(_of_account.account_id, account_ids))
    return dict(run(connection, query).fetchall())
