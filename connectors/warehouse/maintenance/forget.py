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
from connectors.warehouse.storage.sql import literal, quoted, statements
from models.erasure import Account, Erasure, Forgotten
from models.runs import one_line
from models.selection import SelectionError

_SQL = statements(__name__)


def count_items(db: DuckDBPyConnection, account: Account) -> int:
    """Return the number of an account's items."""
    return dict(_of_tables(db, "SELECT count(*)", Erasure((account,))))["media"]


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
    found = {one_id: Account(one_id, tuple(names or ())) for one_id, names in rows}
    found |= {one.account_id: one for one in pending.accounts if name in one.words}
    if not found and account_id:
        # One that was forgotten may be in a restored file; one whose record was never valid may be in quarantine.
        account = Account(account_id)
        if forgotten.marks_in(account_id) or any(dict(_of_tables(db, "SELECT count(*)", Erasure((account,)))).values()):
            return account
    if not found:
        raise SelectionError(
            f"There is no account '{one_line(text)}' in the warehouse. Fix: `gramhouse accounts` lists all with their"
            " ids; a forgotten account is only known by its id."
        )
    if len(found) > 1:
        ids = " or ".join(sorted(found))
        raise SelectionError(f"More than one account is named '{one_line(text)}'. Fix: use an id: {ids}.")
    return found.popitem()[1]


def erase(db: DuckDBPyConnection, raw: Path, erasure: Erasure, *, on_counted: Callable[[Erasure], object]) -> Erasure:
    """Erase accounts, outside of a transaction; return the erasure with the number of rows.

    Afterwards the file must be written again, because it still has what was deleted, and a snapshot be published, which
    brings the runs again. `on_counted` is called before the rows are gone. Raises WarehouseUnusable and OSError.
    """
    merged_seq, is_theirs = read_warehouse(db).merged_seq, pc.field("account_id").isin(erasure.ids)
    delete_superseded_parts(raw, merged_seq=merged_seq)
    versions = raw_seq = 0
    for part in read_parts(raw, merged_seq=merged_seq):
        kept = part.filter(~is_theirs)
        versions += part.num_rows - kept.num_rows
        if kept.num_rows:
            raw_seq = kept["landed"][-1].as_py()
    with transaction(db):
        db.execute("UPDATE core.warehouse SET raw_seq = ?", [raw_seq])
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
    """Do `SELECT count(*)` or `DELETE` with the rows of the accounts in each table; yield the table, and how many."""
    ids, names = (
        ", ".join(map(literal, erasure.ids)),
        [re.escape(name) for one in erasure.accounts for name in one.names],
    )
    in_record = "|".join(account_id.replace("-", "-?") for account_id in erasure.ids)
    named = rf'"(ig_username|public_id)"\s*:\s*"({"|".join(names)})"' if names else r"\b\B"
    more = {
        "quarantine": _SQL["rejected"].replace("{in_record}", literal(in_record)).replace("{named}", literal(named)),
        "scan_findings": f"record_id IN ({ids})",
    }
    for (table,) in db.execute(_SQL["tables"]).fetchall():
        theirs = f"account_id IN ({ids}) OR {more.get(table, 'false')}"
        [(number,)] = db.execute(f"{do} FROM core.{quoted(table)} WHERE {theirs}").fetchall()
        yield str(table), int(number)
