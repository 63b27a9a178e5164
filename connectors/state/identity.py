"""Which warehouse and which service the state belongs to, and times of a clock that was ahead."""

from datetime import datetime

from sqlalchemy import Connection, func, select, update

from connectors.state.progress import abandon_scans
from models.clock import Ahead
from models.identity import Identity
from models.tables import STATE, Instant, checkpoints, cooldowns, identity, runs


def read_identity(connection: Connection) -> Identity:
    """Return what the warehouse's file is compared with."""
    token, last_seq = connection.execute(select(identity.c.token, identity.c.last_seq)).one()
    return Identity(token, last_seq)


def write_token(connection: Connection, token: str) -> None:
    """Store the token that the warehouse's file has now."""
    connection.execute(update(identity).values(token=token))


def read_salt(connection: Connection) -> str:
    """Return the salt of the hashes of hidden values."""
    salt: str = connection.execute(select(identity.c.salt)).scalar_one()
    return salt


def newest_time(connection: Connection) -> datetime | None:
    """Return the newest time at which a page was received, or a run began or ended; None before any."""
    times = (checkpoints.c.updated_at, runs.c.started_at, runs.c.ended_at)
    found = [connection.execute(select(func.max(column))).scalar_one() for column in times]
    return max((time for time in found if time is not None), default=None)


def read_service(connection: Connection) -> str | None:
    """Return the address of the service that the data comes from; None before any page."""
    found: str | None = connection.execute(select(identity.c.base_url)).scalar_one()
    return found


def bind_service(connection: Connection, base_url: str) -> None:
    """Let the data come from this address. Drops cursors and cooldowns if it came from another one."""
    if read_service(connection) not in (None, base_url):
        abandon_scans(connection)
    connection.execute(update(identity).values(base_url=base_url))


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
