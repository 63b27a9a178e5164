"""Making pages durable with their checkpoints: many landings, one transaction, appends only."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any

from duckdb_sqlalchemy import Dialect
from sqlalchemy import Connection, Table

from connectors.warehouse.connection import duck, value
from models.landing import Landing, ScopeHold, StagedPage
from models.ledger import Outcome
from models.tables import core_outcomes, ops_checkpoints, ops_holds, ops_staging
from models.walk import Checkpoint

Row = tuple[Any, ...]

_DIALECT = Dialect()


@cache
def _statement(table: Table, beside: tuple[str, ...]) -> str:
    types = {c.name: c.type.compile(dialect=_DIALECT) for c in table.columns if c.name not in beside}
    taken = "".join(f", unnest(?) AS {name}" for name in beside)
    kept = "".join(f", {name}" for name in beside)
    return f"""
INSERT INTO {table.fullname} BY NAME
SELECT r.*{kept} FROM (SELECT unnest(from_json(?, '{json.dumps([types])}')) AS r{taken})
"""  # noqa: S608 - made of our own declarations


def append(connection: Connection, table: Table, rows: Sequence[Row], **beside: Sequence[str]) -> None:
    """Append rows in the order of the table's columns, but for those of which `beside` has the values of all rows.

    They travel as one JSON document in one parameter: DuckDB's client looks for pandas twice for every value
    it is handed, which made a parameter per value eight times as slow (docs/decisions/0004). Long texts go beside it:
    within a document they would be escaped and read again.
    """
    if not rows:
        return
    names = [column.name for column in table.columns if column.name not in beside]
    document = json.dumps(
        [dict(zip(names, row, strict=True)) for row in rows], default=datetime.isoformat, ensure_ascii=False
    )
    duck(connection).execute(_statement(table, tuple(beside)), [document, *beside.values()])


def _staged(seq: int, page: StagedPage) -> Row:
    where = page.partition
    return (
        seq,
        where.resource,
        where.account_id,
        where.surface,
        page.run_id,
        page.walk_id,
        page.page,
        page.received_at,
        page.correlation_id,
        json.dumps([asdict(record) for record in page.set_aside]) if page.set_aside else None,
        json.dumps(page.unknown_fields) if page.unknown_fields else None,
    )


def _checkpoint(seq: int, checkpoint: Checkpoint) -> Row:
    where = checkpoint.partition
    return (
        seq,
        where.resource,
        where.account_id,
        where.surface,
        checkpoint.lane,
        checkpoint.walk_id,
        checkpoint.run_id,
        checkpoint.cursor,
        checkpoint.pages,
        checkpoint.items,
        checkpoint.state.value,
        checkpoint.started_at,
        checkpoint.updated_at,
    )


def _outcome(outcome: Outcome) -> Row:
    where = outcome.partition
    return (
        outcome.run_id,
        where.resource,
        where.account_id,
        where.surface,
        outcome.kind.value,
        outcome.pages,
        outcome.items,
        outcome.error_code,
        outcome.http_status,
        outcome.correlation_id,
        outcome.resume_after,
        outcome.detail,
        outcome.started_at,
        outcome.ended_at,
    )


def _hold(hold: ScopeHold) -> Row:
    return (hold.scope, hold.resume_after)


_LAST_SEQ = "SELECT greatest((SELECT max(seq) FROM ops.staging), (SELECT max(seq) FROM ops.checkpoints))"


def last_seq(connection: Connection) -> int:
    """Return the number of the last landing; 0 in a new warehouse."""
    return int(value(duck(connection), _LAST_SEQ) or 0)


def land(connection: Connection, landings: Iterable[Landing], *, after: int) -> int:
    """Append the landings to an open transaction, numbered from `after` + 1; return the last number."""
    pages: list[Row] = []
    bodies: list[str] = []
    checkpoints: list[Row] = []
    outcomes: list[Row] = []
    holds: list[Row] = []
    seq = after
    for landing in landings:
        seq += 1
        if landing.page is not None:
            pages.append(_staged(seq, landing.page))
            bodies.append(landing.page.body)
        if landing.checkpoint is not None:
            checkpoints.append(_checkpoint(seq, landing.checkpoint))
        outcomes.extend(_outcome(outcome) for outcome in landing.outcomes)
        if landing.hold is not None:
            holds.append(_hold(landing.hold))
    append(connection, ops_staging, pages, body=bodies)
    append(connection, ops_checkpoints, checkpoints)
    append(connection, core_outcomes, outcomes)
    append(connection, ops_holds, holds)
    return seq
