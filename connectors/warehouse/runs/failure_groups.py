"""What the end of a run tells: the partitions that need a person, grouped by what is the matter."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from models.runs import DONE, OutcomeKind
from models.tables import core_accounts, core_outcomes


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Partitions of a run with the same outcome and error code, with one of them as an example."""

    outcome: OutcomeKind
    error_code: str
    partitions: int
    accounts: int
    example: str
    correlation_id: str | None
    detail: str | None
    resume_after: datetime | None


def failure_groups(connection: Connection, run_id: str) -> tuple[FailureGroup, ...]:
    """Return what went otherwise than complete or skipped in a run, most partitions first."""
    table = core_outcomes.c
    example = table.surface + " of account " + table.account_id
    rows = connection.execute(
        select(
            table.outcome,
            table.error_code,
            func.count().label("partitions"),
            func.count(table.account_id.distinct()).label("accounts"),
            func.min(example).label("example"),
            # Of the same scan as the example: support is asked about one of them, not about a mixture.
            func.arg_min_null(table.correlation_id, example).label("correlation_id"),
            func.arg_min_null(table.detail, example).label("detail"),
            func.max(table.resume_after).label("resume_after"),
        )
        .where(
            table.run_id == run_id,
            table.outcome.not_in([kind.value for kind in (*DONE, OutcomeKind.SKIPPED)]),
        )
        .group_by(table.resource, table.outcome, table.error_code)
        .order_by(func.count().desc(), table.outcome, table.error_code)
    )
    return tuple(
        FailureGroup(
            OutcomeKind(row.outcome),
            row.error_code,
            row.partitions,
            row.accounts,
            "the account catalogue" if row.example == " of account " else row.example,
            row.correlation_id,
            row.detail,
            row.resume_after,
        )
        for row in rows
    )


def expired_accounts(connection: Connection) -> int:
    """Return how many accounts' access tokens must be renewed."""
    table = core_accounts.c
    statement = select(func.count()).where(table.status == "token_expired", table.removed_at.is_(None))
    return int(connection.execute(statement).scalar_one())
