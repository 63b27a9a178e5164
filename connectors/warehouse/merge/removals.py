"""Decides at the end of a run which confirmed removals are made: a run removes little by itself.

Scans only mark what they missed. All of it is counted before anything is removed, so that the result does not depend on
how pages were divided into merges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import transaction
from connectors.warehouse.storage.statements import statements

_SQL = statements(__name__)

# The time between the end of the scan that first missed an item and the beginning of the one that confirms its removal:
# the cause of a truncated listing may last a while.
CONFIRM_AFTER_HOURS = 1

# The same for accounts: a key that lost its grants must not remove them before somebody has noticed.
ACCOUNTS_CONFIRM_AFTER_HOURS = 12

# If the catalogue misses more than this part of the known accounts, a person should look: a key with fewer grants looks
# the same.
ACCOUNTS_LIMIT = 0.1

# A run removes at most this part of what is listed, of all items or of all accounts, or of an account's items if it has
# more than LEAST_ITEMS. It may always remove MOST_UNASKED.
SHARE = 0.1
LEAST_ITEMS = 20
MOST_UNASKED = 10


class Missing(NamedTuple):
    """What is listed of an account, or of the catalogue; what of it the last scans missed; and what is confirmed."""

    listed: int
    missed: int
    confirmed: int


@dataclass(frozen=True, slots=True)
class Removals:
    """What the end of a run removed, and what is still missing.

    Too many items are still missing of `accounts_with_too_many`, and of all with `too_many_items`; the same for
    accounts. They are a finding from the first night on, until a person releases them.
    """

    removed_items: int
    removed_accounts: int
    missing_items: int
    missing_accounts: int
    accounts_with_too_many: Sequence[str]
    too_many_items: bool
    too_many_accounts: bool


def is_too_many(number: int, listed: int) -> bool:
    """Return whether a run must not remove this number of the listed ones by itself."""
    return number > MOST_UNASKED and number > SHARE * listed


def accounts_with_too_many(numbers: Mapping[str, tuple[int, int]]) -> Sequence[str]:
    """Return the accounts that would lose too much; `numbers` are how many items of each, and how many are listed."""
    return sorted(
        account_id
        for account_id, (number, listed) in numbers.items()
        if listed > LEAST_ITEMS and is_too_many(number, listed)
    )


def remove_missing(db: DuckDBPyConnection, run_seq: int, run_id: str, *, accept_removals: bool) -> Removals:
    """Mark as removed what two scans missed, unless it is too much, at the end of a run, after its last merge.

    `accept_removals`: a person releases all that is confirmed, and all accounts that the last catalogue did not list.
    A kill changes nothing: the end of the next run decides. Raises duckdb.Error.
    """
    with transaction(db):
        items = {account_id: Missing(*counts) for account_id, *counts in db.execute(_SQL["missing_items"]).fetchall()}
        [counts] = db.execute(_SQL["missing_accounts"]).fetchall()
        accounts = Missing(*counts)
        listed, missed, confirmed = (sum(counts[place] for counts in items.values()) for place in range(3))
        kept: Sequence[str] = []
        if not accept_removals:
            kept = accounts_with_too_many({key: (counts.confirmed, counts.listed) for key, counts in items.items()})
            kept = sorted(items) if is_too_many(confirmed, listed) else kept
        gone_of = {key: 0 if key in kept else counts.confirmed for key, counts in items.items()}
        removed = sum(gone_of.values())
        if removed:
            db.execute(_SQL["removed_events"], [run_seq, kept])
            db.execute(_SQL["removed_items"], [run_seq, kept])
        gone = 0 if is_too_many(accounts.confirmed, accounts.listed) else accounts.confirmed
        if accept_removals:
            [(gone,)] = db.execute(_SQL["accepted_accounts"], [run_seq]).fetchall()
        if gone:
            db.execute(_SQL["ended_periods"])
            db.execute(_SQL["removed_periods"], [run_seq])
            db.execute(_SQL["removed_accounts"], [run_seq])
        if removed or gone:
            db.execute(_SQL["removed_counts"], [run_seq, run_id, removed, gone])
    return Removals(
        removed,
        gone,
        missed - removed,
        max(accounts.missed - gone, 0),
        accounts_with_too_many(
            {key: (counts.missed - gone_of[key], counts.listed - gone_of[key]) for key, counts in items.items()}
        ),
        is_too_many(missed - removed, listed - removed),
        is_too_many(accounts.missed - gone, accounts.listed - gone),
    )
