"""Erases an account from the warehouse and the raw store; only a salted hash of its id is kept.

What has to be erased is written to a file first (`pending.py`), and each step may be repeated: after a kill at any
time, erasing again completes it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

from connectors.warehouse.maintenance.compact import rewrite
from connectors.warehouse.maintenance.opening import check_exists, opened_store
from connectors.warehouse.maintenance.pending import ACTIVITY, Account, Erasure, pending, save
from connectors.warehouse.raw.parts import Part, all_parts, confirm_part, sources, store_of, write_part
from connectors.warehouse.raw.recovery import remove_retired
from connectors.warehouse.runs.account_names import NAMES, as_name
from connectors.warehouse.runs.forgotten import mark_forgotten, read_forgotten
from connectors.warehouse.storage.connection import Connection, begin_session, explained, value, writer
from connectors.warehouse.storage.declared import of_all_items
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.forgotten import FORGOTTEN
from models.mapping import Mapping as MediaMapping
from models.selection import SelectionError
from models.text import one_line

_SQL = statements(__name__)

# Texts that a person wrote, or that may name an account, with the condition of their rows. A sync selects surfaces, and
# an account may be called like one.
_TEXTS = (
    ("core.runs", ("selection",), "kind <> 'sync'"),
    ("core.runs", ("reason", "detail"), "true"),
    ("core.run_warnings", ("detail", "hint"), "true"),
    ("core.run_outcomes", ("detail",), "true"),
)

# A retired part that was last listed at this time is deleted at once, also by the next command after a kill.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def find(
    warehouse: Path,
    text: str,
    *,
    now: datetime,
    pause: Callable[[float], None],
    raw: Path | None,
    mapping: MediaMapping,
) -> tuple[Account, int]:
    """Return the account with this id, name or public id, and the number of its items. Raises as `erase` does."""
    check_exists(warehouse)
    with (
        writer(warehouse, ACTIVITY, since=now.isoformat(timespec="seconds"), pause=pause, raw=raw) as connection,
        explained(warehouse),
        opened_store(connection, ACTIVITY, now=now, pause=pause, mapping=mapping),
    ):
        account = _find(connection, text)
        items = f"FROM ({of_all_items('account_id')}) WHERE account_id = {literal(account.account_id)}"
        return account, int(value(connection.db, f"SELECT count(*) {items}"))


def _find(connection: Connection, text: str) -> Account:
    account_id = _uuid(text.strip())
    name = account_id or as_name(text)
    rows = connection.db.execute(_SQL["find"].format(names=NAMES), [name]).fetchall()
    found = [Account(stored_id, tuple(names)) for stored_id, names in rows]
    found += [one for one in pending(connection.path).accounts if name in one.words]
    ids = sorted({account.account_id for account in found})
    if len(ids) > 1:
        raise SelectionError(f"More than one account is named '{one_line(text)}'. Fix: use an id: {' or '.join(ids)}.")
    if found:
        return found[-1]
    if account_id is not None:
        # One that was forgotten is searched for again; one whose record was never valid may be in quarantine.
        account = Account(account_id)
        if read_forgotten(connection).marks_in(account_id) or _is_stored(connection, account):
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


def erase(
    warehouse: Path,
    text: str,
    *,
    now: datetime,
    pause: Callable[[float], None],
    raw: Path | None,
    mapping: MediaMapping,
    new_salt: str,
) -> tuple[Erasure, Path]:
    """Erase the account with this id, name or public id, and what an interrupted erasure has left; rewrite the files.

    Return what was erased, and the folder of the raw store. Afterwards the snapshot must be published, and then the
    erasure finished. `new_salt` is used if no account was forgotten before. The other arguments are those of `rewrite`.

    Raises SelectionError if there is no such account or more than one, WarehouseBusy and WarehouseUnusable.
    """

    def work(connection: Connection) -> tuple[Erasure, Path]:
        before, account = pending(warehouse), _find(connection, text)
        accounts = {one.account_id: one for one in (account, *before.accounts)}
        erasure = Erasure(tuple(accounts.values()), before.removed)
        save(warehouse, erasure)
        with connection.begin():
            for account_id in accounts:
                mark_forgotten(connection, account_id, new_salt, at=now)
            in_parts = _in_parts(connection, erasure)
            live = sum(rows for part, rows in in_parts if part.retired_at is None)
            removed = {**_delete(connection, erasure), "raw_versions": live}
            # After a kill most rows are deleted already.
            most = {name: max(rows, erasure.removed.get(name, 0)) for name, rows in removed.items()}
            erasure = Erasure(erasure.accounts, {name: rows for name, rows in most.items() if rows})
            _redact(connection, erasure)
            save(warehouse, erasure)
        _rewrite_parts(connection, erasure, [part for part, _ in in_parts], now=now)
        return erasure, store_of(connection).folder

    return rewrite(warehouse, ACTIVITY, work, now=now, pause=pause, raw=raw, mapping=mapping)


def _rows_of(connection: Connection, erasure: Erasure) -> Iterator[tuple[str, str]]:
    """Yield each table that has rows of the accounts, with the condition for these rows."""
    # A rejected record may not show whose it is, or be a whole page.
    in_record = [account.account_id.replace("-", "-?") for account in erasure.accounts]
    in_record += [
        rf'"(ig_username|public_id)"\s*:\s*"{re.escape(name)}"' for one in erasure.accounts for name in one.names
    ]
    conditions = {
        "quarantine": f"account_id IN ({erasure.ids}) OR regexp_matches(payload, {literal('|'.join(in_record))}, 'i')",
        "cooldowns": f"split_part(scope, ':', 2) IN ({erasure.ids})",
    }
    for schema, table in connection.db.execute(_SQL["tables"]).fetchall():
        yield quoted(schema, table), conditions.get(table, f"account_id IN ({erasure.ids})")


def _delete(connection: Connection, erasure: Erasure) -> dict[str, int]:
    """Delete the rows of the accounts, in the open transaction; return how many, by table."""
    # The cursor of an unfinished catalogue is opaque, and may contain the account: the next sync begins it again.
    connection.db.execute("DELETE FROM ops.checkpoints WHERE resource = 'accounts' AND cursor IS NOT NULL")
    return {
        table.split('"')[-2]: int(value(connection.db, f"DELETE FROM {table} WHERE {where}"))  # noqa: S608 - quoted
        for table, where in _rows_of(connection, erasure)
    }


def _redact(connection: Connection, erasure: Erasure) -> None:
    """Replace ids and names in the texts of runs by the word forgotten, in the open transaction."""
    words = "|".join(re.escape(word) for account in erasure.accounts for word in account.words)
    # A name may contain full stops, and be followed by one.
    word = re.compile(rf"(?<![\w.])(?:{words})(?!\w|\.\w)", re.IGNORECASE)
    for table, columns, rows in _TEXTS:
        named = " OR ".join(f"regexp_matches({column}, {literal(words)}, 'i')" for column in columns)
        query = f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE {rows} AND ({named})"  # noqa: S608 - quoted
        for rowid, *texts in connection.db.execute(query).fetchall():
            redacted = [None if text is None else word.sub(FORGOTTEN, text) for text in texts]
            assignments = ", ".join(f"{column} = ?" for column in columns)
            connection.db.execute(f"UPDATE {table} SET {assignments} WHERE rowid = {rowid}", redacted)  # noqa: S608


def _in_parts(connection: Connection, erasure: Erasure) -> list[tuple[Part, int]]:
    """Return the parts of the raw store that have rows of the accounts, and how many, also retired parts."""
    found = []
    for part in all_parts(connection):
        rows = f"FROM {sources(connection, [part])} WHERE account_id IN ({erasure.ids})"
        found.append((part, int(value(connection.db, f"SELECT count(*) {rows}"))))
    return [(part, rows) for part, rows in found if rows]


def _rewrite_parts(connection: Connection, erasure: Erasure, parts: Sequence[Part], *, now: datetime) -> None:
    """Write these parts again without the rows of the accounts, and delete them."""
    with connection.begin():
        begin_session(connection, uuid4().hex)
    for part in parts:
        with connection.begin():
            if part.retired_at is None:
                source = sources(connection, [part])
                query = f"SELECT * FROM {source} WHERE account_id NOT IN ({erasure.ids}) ORDER BY landed"  # noqa: S608
                write_part(connection, query)
            connection.db.execute(_SQL["retire"], [part.retired_at or now, _LONG_AGO, part.number])
        confirm_part(connection)
    remove_retired(connection, now=now)
