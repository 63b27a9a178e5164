"""Decides at the end of a run which confirmed removals are made: a run removes little by itself.

Scans only mark what they missed. All of it is counted before anything is removed, so that the result does not depend on
how pages were divided into merges.
"""

from collections.abc import Sequence
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.merge import add_counts
from connectors.warehouse.merge.reading import Counted
from connectors.warehouse.storage.connection import transaction
from connectors.warehouse.storage.sql import statements

_SQL = statements(__name__)


class Removals(NamedTuple):
    """What the end of a run removed, and what is still missing.

    Too many items are still missing of `accounts_with_too_many`, and of all with `too_many_items`; the same for
    accounts. They are a finding from the first night on, until a person releases them.
    """

    missing_items: int
    too_many_items: bool
    missing_accounts: int
    too_many_accounts: bool
    accounts_with_too_many: Sequence[str]
    removed_items: int = 0
    removed_accounts: int = 0


def remove_missing(db: DuckDBPyConnection, run_seq: int, run_id: str, *, accept_removals: bool) -> Removals:
    """Mark as removed what two scans missed, unless it is too much, at the end of a run, after its last merge.

    `accept_removals`: a person releases all that is confirmed, and all accounts that the last catalogue did not list.
    A kill changes nothing: the end of the next run decides. Raises duckdb.Error.
    """
    with transaction(db):
        if accept_removals:
            db.execute(_SQL["accepted_accounts"], [run_seq])
        confirmed = _find(db, "confirmed_by")
        counted = Counted()
        if confirmed.missing_items and (accept_removals or not confirmed.too_many_items):
            kept = [] if accept_removals else confirmed.accounts_with_too_many
            db.execute(_SQL["removed_events"], [run_seq, kept])
            [(counted[run_seq, "removed"],)] = db.execute(_SQL["removed_items"], [run_seq, kept]).fetchall()
        if confirmed.missing_accounts and (accept_removals or not confirmed.too_many_accounts):
            counted[run_seq, "accounts_removed"] = confirmed.missing_accounts
            db.execute(_SQL["ended_periods"])
            db.execute(_SQL["removed_periods"], [run_seq])
            db.execute(_SQL["removed_accounts"], [run_seq])
        add_counts(db, counted, {run_seq: run_id})
        items, accounts = counted[run_seq, "removed"], counted[run_seq, "accounts_removed"]
        return _find(db, "missed_at")._replace(removed_items=items, removed_accounts=accounts)


def _find(db: DuckDBPyConnection, mark: str) -> Removals:
    """Return what of all that is listed has this mark."""
    items, accounts, *held = db.execute(_SQL["missing"].format(mark=mark)).fetchall()
    return Removals(items[1], items[2], accounts[1], accounts[2], [account_id for account_id, *_ in held])
