"""Erases accounts from the warehouse and the raw store.

Each step may be repeated: after a kill at any time, erasing again completes it.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.compact_parts import delete_superseded_parts, rewrite_parts
from connectors.warehouse.queries.selection import NAMES, as_name
from connectors.warehouse.raw.parts import read_parts
from connectors.warehouse.storage.connection import transaction
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.quoting import quoted
from connectors.warehouse.storage.statements import statements
from models.erasure import Account, Erasure, Forgotten
from models.runs import one_line
from models.selection import SelectionError

_SQL = statements(__name__)

# Which rows are of the accounts, besides those with their ids. A rejected record may not show whose it is, or be a
# whole page; a name alone does not show it in a record that has an id.
_MORE = {
    "quarantine": "regexp_matches(payload, $in_record, 'i')"
    " OR (account_id = '' AND regexp_matches(payload, $named, 'i')"
    " AND NOT regexp_matches(payload, '[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}', 'i'))",
    "scan_findings": "list_contains($ids, record_id)",
}


def count_items(db: DuckDBPyConnection, account: Account) -> int:
    """Return the number of an account's items."""
    [(items,)] = db.execute("SELECT count(*) FROM core.media WHERE account_id = ?", [account.account_id]).fetchall()
    return int(items)


def find_account(db: DuckDBPyConnection, text: str, pending: Erasure, forgotten: Forgotten) -> Account:
    """Return the account with this id, name or public id.

    It may be one that an interrupted erasure is about, or that was forgotten before. Raises SelectionError if there is
    no such account or more than one.
    """
    try:
        account_id = str(UUID(text.strip()))
    except ValueError:
        account_id = ""
    name = account_id or as_name(text)
    rows = db.execute(_SQL["find"].format(names=NAMES), [name]).fetchall()
    found = [Account(stored_id, tuple(names or ())) for stored_id, names in rows]
    found += [one for one in pending.accounts if name in one.words]
    ids = sorted({account.account_id for account in found})
    if len(ids) > 1:
        raise SelectionError(f"More than one account is named '{one_line(text)}'. Fix: use an id: {' or '.join(ids)}.")
    if found:
        return found[-1]
    if account_id:
        # One that was forgotten may be in a restored file; one whose record was never valid may be in quarantine.
        account = Account(account_id)
        if forgotten.marks_in(account_id) or any(rows for _, rows in _of_tables(db, "SELECT 1", Erasure((account,)))):
            return account
    raise SelectionError(
        f"There is no account '{one_line(text)}' in the warehouse. Fix: `gramhouse accounts` lists all with their ids;"
        " a forgotten account is only known by its id."
    )


def erase(db: DuckDBPyConnection, raw: Path, erasure: Erasure, *, on_counted: Callable[[Erasure], object]) -> Erasure:
    """Erase accounts, outside of a transaction; return the erasure with the number of rows.

    Afterwards the file must be written again, because it still has what was deleted, and a snapshot be published, which
    brings the runs again. `on_counted` is called before the rows are gone. Raises WarehouseUnusable and OSError.
    """
    merged_seq, is_theirs = read_warehouse(db).merged_seq, pc.field("account_id").isin(erasure.ids)
    delete_superseded_parts(raw, merged_seq=merged_seq)
    versions = sum(part.filter(is_theirs).num_rows for part in read_parts(raw, merged_seq=merged_seq))
    with transaction(db):
        erasure = erasure.with_removed({**dict(_of_tables(db, "DELETE", erasure)), "raw_versions": versions})
        db.execute(_SQL["of_state"])
        query = "SELECT rowid, detail FROM core.run_outcomes WHERE detail IS NOT NULL"
        for rowid, detail in db.execute(query).fetchall():
            if (after := erasure.redact(detail)) != detail:
                db.execute("UPDATE core.run_outcomes SET detail = ? WHERE rowid = ?", [after, rowid])
        on_counted(erasure)
    rewrite_parts(raw, lambda rows: rows.filter(~is_theirs))
    return erasure


def _of_tables(db: DuckDBPyConnection, do: str, erasure: Erasure) -> Iterator[tuple[str, int]]:
    """Do `SELECT 1` or `DELETE` with the rows of the accounts in each table; yield the table, and how many."""
    ids = [account.account_id.replace("-", "-?") for account in erasure.accounts]
    names = [re.escape(name) for account in erasure.accounts for name in account.names]
    of_accounts = {
        "ids": erasure.ids,
        "in_record": "|".join(ids),
        "named": rf'"(ig_username|public_id)"\s*:\s*"({"|".join(names)})"' if names else r"\b\B",
    }
    for (table,) in db.execute(_SQL["tables"]).fetchall():
        condition = " OR ".join(["list_contains($ids, account_id)", *filter(None, [_MORE.get(table)])])
        used = {name: value for name, value in of_accounts.items() if f"${name}" in condition}
        returning = " RETURNING 1" if do == "DELETE" else ""
        query = f"{do} FROM core.{quoted(table)} WHERE {condition}{returning}"
        yield str(table), len(db.execute(query, used).fetchall())
