"""The accounts that were erased and must not be imported again."""

from datetime import datetime

from sqlalchemy import delete, select

from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.compiled import among, ops_forgotten, run
from connectors.warehouse.storage.connection import Connection
from models.forgotten import Forgotten, mark_of

_of_mark = ops_forgotten.c


def read_forgotten(connection: Connection) -> Forgotten:
    """Return the marks of erased accounts."""
    rows = run(connection, select(_of_mark.salt, _of_mark.mark)).fetchall()
    return Forgotten(rows[0][0], frozenset(mark for _, mark in rows)) if rows else Forgotten()


def mark_forgotten(connection: Connection, account_id: str, new_salt: str, *, at: datetime) -> None:
    """Mark an account as forgotten, in the open transaction. `new_salt` is used if there are no marks yet."""
    salt, known = (found := read_forgotten(connection)).salt or new_salt, found.marks
    if (mark := mark_of(account_id, salt)) not in known:
        append(connection, "ops.forgotten", [{"mark": mark, "salt": salt, "forgotten_at": at}])


def unmark_forgotten(connection: Connection, account_id: str) -> bool:
    """Let syncs import an account again, in the open transaction; return whether it was marked."""
    marks = read_forgotten(connection).marks_in(account_id)
    run(connection, delete(ops_forgotten).where(among(_of_mark.mark, marks)))
    return bool(marks)
