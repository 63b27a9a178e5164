"""Finds accounts by what a person typed, and selects those that a backfill scans; in the warehouse or a snapshot."""

from collections.abc import Mapping, Sequence

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import statements
from models.feeds import SURFACES
from models.runs import nearest, one_line
from models.selection import ChosenAccount, Selection, SelectionError

_SQL = statements(__name__)

NAMES = "account_id, lower(ig_username), lower(public_id)"
"""All that names an account, as columns of `accounts`. Ids are stored in lower case."""


def as_name(typed: str) -> str:
    """Return as it is in NAMES what a person typed: an id, a name (also with an @) or a public id, in any case."""
    return typed.strip().removeprefix("@").lower()


def choose_accounts(db: DuckDBPyConnection, selection: Selection) -> tuple[ChosenAccount, ...]:
    """Return the accounts of a selection, ordered by name, each once; empty if none matches.

    Raises SelectionError if a named account does not exist, is ambiguous or was removed, or, for `selection.failed`, if
    only the account catalogue is incomplete.
    """
    values = {
        "surfaces": list(selection.surfaces),
        "named": find_accounts(db, selection.accounts),
        "everything": selection.everything,
        "expired_since": selection.expired_since,
        "failed": selection.failed,
    }
    if selection.failed and {resource for resource, *_ in db.execute(_SQL["incomplete"]).fetchall()} == {"accounts"}:
        raise SelectionError("The account catalogue could not be fetched by the last run. Fix: run `gramhouse sync`.")
    rows = db.execute(_SQL["choose"].format(incomplete=_SQL["incomplete"]), values).fetchall()
    return tuple(
        ChosenAccount(listed_as, status, tuple(one for one in SURFACES if one in surfaces), username)
        for listed_as, status, username, surfaces in rows
    )


def find_accounts(db: DuckDBPyConnection, accounts: Sequence[str], what: str = "account") -> list[str]:
    """Return the ids of accounts by what a person typed; `what` may be more than an account.

    Raises SelectionError if one does not exist, is ambiguous or was removed.
    """
    typed = {as_name(text): text for text in accounts}
    if not typed:
        return []
    found: Mapping[str, list[str]] = dict(db.execute(_SQL["find"].format(names=NAMES), [[*typed]]).fetchall())
    for name, text in typed.items():
        ids = found.get(name, [])
        if len(ids) == 1:
            continue
        shown = one_line(text)
        if name not in found:
            names = db.execute("SELECT ig_username FROM core.accounts WHERE removed_at IS NULL").fetchall()
            why = f"There is no {what} '{shown}' in the warehouse. {nearest(name, [str(one) for (one,) in names])}"
        else:
            why = f"'{shown}' {'is the name of more than one account' if ids else 'left the catalogue'}. "
        raise SelectionError(f"{why}Fix: `gramhouse accounts` lists all with their ids, and a sync finds new ones.")
    return [account_id for (account_id,) in found.values()]
