"""The accounts that were erased and must not be imported again."""

from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from models.forgotten import Forgotten, mark_of
from models.tables import forgotten


def read_forgotten(connection: Connection) -> Forgotten:
    """Return the marks of erased accounts."""
    rows = connection.execute(select(forgotten.c.salt, forgotten.c.mark)).fetchall()
    return Forgotten(rows[0][0], frozenset(mark for _, mark in rows)) if rows else Forgotten()


def mark_forgotten(connection: Connection, account_id: str, new_salt: str, *, at: datetime) -> None:
    """Mark an account as forgotten. `new_salt` is used if there are no marks yet."""
    salt, known = (found := read_forgotten(connection)).salt or new_salt, found.marks
    if (mark := mark_of(account_id, salt)) not in known:
        connection.execute(insert(forgotten).values(mark=mark, salt=salt, forgotten_at=at))


def unmark_forgotten(connection: Connection, account_id: str) -> bool:
    """Let syncs import an account again; return whether it was marked."""
    marks = read_forgotten(connection).marks_in(account_id)
    connection.execute(delete(forgotten).where(forgotten.c.mark.in_(marks)))
    return bool(marks)
