"""Which warehouse and which service the state belongs to, and times of a clock that was ahead."""

from datetime import datetime

from sqlalchemy import Connection, select, update

from connectors.state.progress import abandon_scans
from models.identity import Identity
from models.tables import STATE, Instant, cooldowns, identity


def read_identity(connection: Connection) -> Identity:
    """Return what the warehouse's file is compared with."""
    token, last_seq = connection.execute(select(identity.c.token, identity.c.last_seq)).one()
    return Identity(token, last_seq)


def write_token(connection: Connection, token: str) -> None:
    """Store the token that the warehouse's file has now."""
    connection.execute(update(identity).values(token=token))


def read_service(connection: Connection) -> str | None:
    """Return the address of the service that the data comes from; None before any page."""
    found: str | None = connection.execute(select(identity.c.base_url)).scalar_one()
    return found


def bind_service(connection: Connection, base_url: str) -> None:
    """Let the data come from this address. Drops cursors and cooldowns if it came from another one."""
    if read_service(connection) not in (None, base_url):
        abandon_scans(connection)
    connection.execute(update(identity).values(base_url=base_url))


def move_times(connection: Connection, *, now: datetime, to: datetime) -> None:
    """Move times after `now` back, because the clock was ahead, so that nothing looks newer than it is.

    A cooldown keeps its full length, from now on.
    """
    for scope, ends, asked_at in connection.execute(select(cooldowns).where(cooldowns.c.asked_at > now)).fetchall():
        this = update(cooldowns).where(cooldowns.c.scope == scope)
        connection.execute(this.values(asked_at=now, resume_after=now + (ends - asked_at)))
    for table in STATE.tables.values():
        for column in table.columns:
            # The ends of waits, and times of the service, may be in the future.
            if isinstance(column.type, Instant) and column.name not in ("resume_after", "read_to"):
                connection.execute(update(table).where(column > now).values({column.name: to}))
