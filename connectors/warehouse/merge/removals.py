"""Decides at the end of a run which confirmed removals are made: a run removes little by itself.

Scans only mark what they missed. All of it is counted before anything is removed, so that the result does not depend on
how pages were divided into merges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.run_counts import Counted, add_counts
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


def find_too_many(gone: Mapping[str, int], listed: Mapping[str, int]) -> tuple[Sequence[str], bool]:
    """Return the accounts that would lose too much, and whether all would together; both are numbers of items."""
    accounts = sorted(key for key in gone if listed[key] > LEAST_ITEMS and is_too_many(gone[key], listed[key]))
    return accounts, is_too_many(sum(gone.values()), sum(listed.values()))


def remove_missing(db: DuckDBPyConnection, run_seq: int, run_id: str, *, accept_removals: bool) -> Removals:
    """Mark as removed what two scans missed, unless it is too much, at the end of a run, after its last merge.

    `accept_removals`: a person releases all that is confirmed, and all accounts that the last catalogue did not list.
    A kill changes nothing: the end of the next run decides. Raises duckdb.Error.
    """
    with transaction(db):
        items = db.execute(_SQL["missing_items"]).fetchall()
        listed, missed, confirmed = ({row[0]: row[place] for row in items} for place in (1, 2, 3))
        [(listed_accounts, missed_accounts, gone)] = db.execute(_SQL["missing_accounts"]).fetchall()
        kept, are_all_kept = ((), False) if accept_removals else find_too_many(confirmed, listed)
        kept = sorted(listed) if are_all_kept else kept
        removed_of = {key: 0 if key in kept else number for key, number in confirmed.items()}
        removed = sum(removed_of.values())
        if removed:
            db.execute(_SQL["removed_events"], [run_seq, kept])
            db.execute(_SQL["removed_items"], [run_seq, kept])
        if accept_removals:
            [(gone,)] = db.execute(_SQL["accepted_accounts"], [run_seq]).fetchall()
        elif is_too_many(gone, listed_accounts):
            gone = 0
        if gone:
            db.execute(_SQL["ended_periods"])
            db.execute(_SQL["removed_periods"], [run_seq])
            db.execute(_SQL["removed_accounts"], [run_seq])
        counted = Counted({(run_seq, "removed"): removed, (run_seq, "accounts_removed"): gone})
        add_counts(db, counted, {run_seq: run_id})
    left = {key: number - removed_of[key] for key, number in missed.items()}
    missing_accounts = max(missed_accounts - gone, 0)
    return Removals(
        removed,
        gone,
        sum(left.values()),
        missing_accounts,
        *find_too_many(left, {key: number - removed_of[key] for key, number in listed.items()}),
        is_too_many(missing_accounts, listed_accounts - gone),
    )
