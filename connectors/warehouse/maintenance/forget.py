"""Erases an account from the warehouse and the raw store.

Each step may be repeated: after a kill at any time, erasing again completes it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

from connectors.warehouse.maintenance.pending import Account, Erasure
from connectors.warehouse.raw.parts import Part, all_parts, confirm_part, sources, write_part
from connectors.warehouse.raw.recovery import remove_retired
from connectors.warehouse.runs.account_names import NAMES, as_name
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import of_all_items
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.forgotten import FORGOTTEN, Forgotten
from models.selection import SelectionError
from models.text import one_line

_SQL = statements(__name__)

# Texts that may name an account.
_TEXTS = (("core.run_warnings", ("detail", "hint")), ("core.run_outcomes", ("detail",)))

# A retired part that was last listed at this time is deleted at once, also by the next command after a kill.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def count_items(connection: Connection, account: Account) -> int:
    """Return the number of an account's items."""
    items = f"FROM ({of_all_items('account_id')}) WHERE account_id = {literal(account.account_id)}"
    return int(value(connection.db, f"SELECT count(*) {items}"))


def find_account(connection: Connection, text: str, pending: Erasure, forgotten: Forgotten) -> Account:
    """Return the account with this id, name or public id.

    It may be one that an interrupted erasure is about, or that was forgotten before. Raises SelectionError if there is
    no such account or more than one.
    """
    account_id = _uuid(text.strip())
    name = account_id or as_name(text)
    rows = connection.db.execute(_SQL["find"].format(names=NAMES), [name]).fetchall()
    found = [Account(stored_id, tuple(names)) for stored_id, names in rows]
    found += [one for one in pending.accounts if name in one.words]
    ids = sorted({account.account_id for account in found})
    if len(ids) > 1:
        raise SelectionError(f"More than one account is named '{one_line(text)}'. Fix: use an id: {' or '.join(ids)}.")
    if found:
        return found[-1]
    if account_id is not None:
        # One that was forgotten is searched for again; one whose record was never valid may be in quarantine.
        account = Account(account_id)
        if forgotten.marks_in(account_id) or _is_stored(connection, account):
            return account
    raise SelectionError(
        f"There is no account '{one_line(text)}' in the warehouse. Fix: `gramhouse accounts` lists all with their ids;"
        " a forgotten account is only known by its id."
    )


def _uuid(text: str) -> str | None:
    try:
        return str(UUID(text))
    except ValueError:
        return None


def _is_stored(connection: Connection, account: Account) -> bool:
    return any(
        value(connection.db, f"SELECT EXISTS (FROM {table} WHERE {where})")
        for table, where in _rows_of(connection, Erasure((account,)))
    )


def erase(connection: Connection, erasure: Erasure, *, now: datetime, on_counted: Callable[[Erasure], None]) -> Erasure:
    """Erase accounts; return the erasure with the number of rows. The connection must not be in a transaction.

    Afterwards the file must be written again, because it still has what was deleted. `on_counted` is called before the
    rows are gone. Raises WarehouseUnusable.
    """
    with connection.begin():
        in_parts = _in_parts(connection, erasure)
        live = sum(rows for part, rows in in_parts if part.retired_at is None)
        removed = {**_delete(connection, erasure), "raw_versions": live}
        # After a kill most rows are deleted already.
        erasure = erasure.with_removed(removed)
        for table, columns in _TEXTS:
            _redact(connection, table, columns, erasure)
        on_counted(erasure)
    _rewrite_parts(connection, erasure, [part for part, _ in in_parts], now=now)
    return erasure


def _rows_of(connection: Connection, erasure: Erasure) -> Iterator[tuple[str, str]]:
    """Yield each table that has rows of the accounts, with the condition for these rows."""
    # A rejected record may not show whose it is, or be a whole page.
    in_record = [account.account_id.replace("-", "-?") for account in erasure.accounts]
    in_record += [
        rf'"(ig_username|public_id)"\s*:\s*"{re.escape(name)}"' for one in erasure.accounts for name in one.names
    ]
    conditions = {
        "quarantine": f"account_id IN ({erasure.ids}) OR regexp_matches(payload, {literal('|'.join(in_record))}, 'i')",
    }
    for schema, table in connection.db.execute(_SQL["tables"]).fetchall():
        yield quoted(schema, table), conditions.get(table, f"account_id IN ({erasure.ids})")


def _delete(connection: Connection, erasure: Erasure) -> dict[str, int]:
    """Delete the rows of the accounts, in the open transaction; return how many, by table."""
    return {
        table.split('"')[-2]: int(value(connection.db, f"DELETE FROM {table} WHERE {where}"))  # noqa: S608 - quoted
        for table, where in _rows_of(connection, erasure)
    }


def _words(erasure: Erasure) -> str:
    return "|".join(re.escape(word) for account in erasure.accounts for word in account.words)


def redactor(erasure: Erasure) -> Callable[[str], str]:
    """Return a function that replaces ids and names in a text by the word forgotten."""
    # A name may contain full stops, and be followed by one.
    word = re.compile(rf"(?<![\w.])(?:{_words(erasure)})(?!\w|\.\w)", re.IGNORECASE)
    return lambda text: word.sub(FORGOTTEN, text)


def _redact(connection: Connection, table: str, columns: Sequence[str], erasure: Erasure) -> None:
    redacted = redactor(erasure)
    named = " OR ".join(f"regexp_matches({column}, {literal(_words(erasure))}, 'i')" for column in columns)
    query = f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE {named}"  # noqa: S608 - quoted
    for rowid, *texts in connection.db.execute(query).fetchall():
        assignments = ", ".join(f"{column} = ?" for column in columns)
        after = [text and redacted(text) for text in texts]
        connection.db.execute(f"UPDATE {table} SET {assignments} WHERE rowid = {rowid}", after)  # noqa: S608


def _in_parts(connection: Connection, erasure: Erasure) -> list[tuple[Part, int]]:
    """Return the parts of the raw store that have rows of the accounts, and how many, also retired parts."""
    found = []
    for part in all_parts(connection):
        rows = f"FROM {sources(connection, [part])} WHERE account_id IN ({erasure.ids})"
        found.append((part, int(value(connection.db, f"SELECT count(*) {rows}"))))
    return [(part, rows) for part, rows in found if rows]


def _rewrite_parts(connection: Connection, erasure: Erasure, parts: Sequence[Part], *, now: datetime) -> None:
    """Write these parts again without the rows of the accounts, and delete them."""
    for part in parts:
        with connection.begin():
            if part.retired_at is None:
                source = sources(connection, [part])
                query = f"SELECT * FROM {source} WHERE account_id NOT IN ({erasure.ids}) ORDER BY landed"  # noqa: S608
                write_part(connection, query)
            connection.db.execute(_SQL["retire"], [part.retired_at or now, _LONG_AGO, part.number])
        confirm_part(connection)
    remove_retired(connection, now=now)
