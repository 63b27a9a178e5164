"""Maintenance that is under way: a row until it is done, so that it begins again after a kill."""

from datetime import datetime

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects.sqlite import insert

from connectors.state.inbox import count_landings
from models.tables import identity, operations

_of = operations.c


def begin_operation(connection: Connection, kind: str, detail: str = "{}", *, now: datetime) -> int:
    """Add the row of an operation, or replace the detail of one that was interrupted; return its landing number."""
    seq = count_landings(connection, 1) + 1
    row = {"kind": kind, "seq": seq, "began_at": now, "detail": detail}
    put = insert(operations).values(row)
    connection.execute(put.on_conflict_do_update(index_elements=[_of.kind], set_={"seq": seq, "detail": detail}))
    return seq


def read_operations(connection: Connection) -> dict[str, str]:
    """Return the detail of each operation that is under way or was interrupted, by its kind."""
    return {row.kind: row.detail for row in connection.execute(select(_of.kind, _of.detail))}


def operation_numbers(connection: Connection, kind: str) -> range:
    """Return the landing numbers that an interrupted operation may have taken; empty if there is none."""
    first = connection.execute(select(_of.seq).where(_of.kind == kind)).scalar_one_or_none()
    last = connection.execute(select(identity.c.last_seq)).scalar_one()
    return range(0) if first is None else range(first, last + 1)


def end_operation(connection: Connection, kind: str) -> None:
    """Delete the row of an operation that is done."""
    connection.execute(delete(operations).where(_of.kind == kind))
