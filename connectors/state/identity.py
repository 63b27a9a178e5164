"""What the file says of itself: which warehouse and service it belongs to, and which accounts are or were erased."""

from datetime import datetime

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, union_all, update

from connectors.state.inbox import reserve_seqs
from models.checkpoint import ScanState
from models.clock import Ahead
from models.erasure import OPERATION, Erasure, Forgotten, mark_of
from models.files import Identity
from models.tables import STATE, Instant, checkpoints, cooldowns, forgotten, identity, operations, runs


def read_identity(connection: Connection) -> Identity:
    """Return what the file says of itself; the token and `seq` are compared with those of the warehouse's file."""
    row = connection.execute(select(identity)).one()
    return Identity(row.token, row.last_seq, salt=row.salt, base_url=row.base_url)


def write_token(connection: Connection, token: str) -> None:
    """Store the token that the warehouse's file has now."""
    connection.execute(update(identity).values(token=token))


def bind_service(connection: Connection, base_url: str) -> None:
    """Let the data come from this address. Drops cursors and cooldowns if it came from another one."""
    if read_identity(connection).base_url not in (None, base_url):
        scanning = update(checkpoints).where(checkpoints.c.state == ScanState.SCANNING)
        connection.execute(scanning.values(state=ScanState.ABANDONED, cursor=None))
        connection.execute(delete(cooldowns))
    connection.execute(update(identity).values(base_url=base_url))


def newest_time(connection: Connection) -> datetime | None:
    """Return the newest time at which a page was received, or a run began or ended; None before any."""
    times = union_all(select(checkpoints.c.updated_at), select(runs.c.started_at), select(runs.c.ended_at)).subquery()
    found: datetime | None = connection.execute(select(func.max(times.c.updated_at))).scalar_one()
    return found


def move_times(connection: Connection, *, now: datetime) -> Ahead | None:
    """Move times after `now` to now, because the clock was ahead; return what they were.

    A cooldown keeps its full length, from now on.
    """
    for scope, ends, asked_at in connection.execute(select(cooldowns).where(cooldowns.c.asked_at > now)).fetchall():
        this = update(cooldowns).where(cooldowns.c.scope == scope)
        connection.execute(this.values(resume_after=now + (ends - asked_at)))
    found: list[datetime] = []
    for table in STATE.tables.values():
        for column in table.columns:
            # The ends of waits, and times of the service, may be in the future.
            if isinstance(column.type, Instant) and column.name not in ("resume_after", "read_to"):
                found += connection.execute(select(column).where(column > now)).scalars()
                connection.execute(update(table).where(column > now).values({column.name: now}))
    return Ahead(len(found), max(found)) if found else None


def write_erasure(connection: Connection, erasure: Erasure, *, now: datetime) -> None:
    """Add the row of an erasure, or replace it: it stays until the erasure is done, so that it begins again."""
    row = {"kind": OPERATION, "seq": reserve_seqs(connection, 1) + 1, "began_at": now}
    put = insert(operations).prefix_with("OR REPLACE")
    connection.execute(put.values(**row, detail=msgspec.json.encode(erasure).decode()))


def read_erasure(connection: Connection) -> Erasure:
    """Return the erasure that is under way or was interrupted; one of no accounts, if there is none."""
    detail = connection.execute(select(operations.c.detail).filter_by(kind=OPERATION)).scalar()
    return msgspec.json.decode(detail or "{}", type=Erasure)


def end_erasure(connection: Connection) -> None:
    """Delete the row of an erasure that is done."""
    connection.execute(delete(operations))


def read_forgotten(connection: Connection) -> Forgotten:
    """Return the marks of the accounts that were erased, and must not be imported again."""
    rows = connection.execute(select(forgotten.c.salt, forgotten.c.mark)).fetchall()
    return Forgotten(rows[0][0], frozenset(mark for _, mark in rows)) if rows else Forgotten()


def mark_forgotten(connection: Connection, account_id: str, new_salt: str, *, at: datetime) -> None:
    """Mark an account as forgotten. `new_salt` is used if there are no marks yet."""
    found = read_forgotten(connection)
    salt = found.salt or new_salt
    if (mark := mark_of(account_id, salt)) not in found.marks:
        connection.execute(insert(forgotten).values(mark=mark, salt=salt, forgotten_at=at))


def unmark_forgotten(connection: Connection, account_id: str) -> bool:
    """Let syncs import an account again; return whether it was marked."""
    marks = read_forgotten(connection).marks_in(account_id)
    connection.execute(delete(forgotten).where(forgotten.c.mark.in_(marks)))
    return bool(marks)
