"""Incomplete outcomes grouped by cause; the same SQL for the warehouse and the snapshot."""

from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.runs.selection import asking
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.feed_items import Ask
from connectors.warehouse.storage.quoting import literal
from connectors.warehouse.storage.statements import statements
from models.runs import LONG_COOLDOWN, OutcomeKind

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Example:
    """One incomplete scan; `surface` and `account_id` are empty for the catalogue."""

    ig_username: str
    surface: str
    correlation_id: str | None
    account_id: str = ""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Scans with the same outcome and error code, with up to three examples; `detail` is the first one's.

    `usernames` are those of all its accounts.
    """

    outcome: OutcomeKind
    error_code: str
    scans: int
    accounts: int
    resume_after: datetime | None
    detail: str
    examples: tuple[Example, ...]
    usernames: tuple[str, ...] = ()

    @property
    def example(self) -> Example:
        """Return the first example."""
        return self.examples[0]


def grouped(outcomes: str, schema: str = "", *, apart: str = "true") -> str:
    """Return the query that groups incomplete outcomes by cause, the groups with most scans first.

    `outcomes` is a query for rows of `run_outcomes`. Rows that differ in the expression `apart` are in separate groups.
    `schema` is "core." in the warehouse and "" in the snapshot.
    """
    return _SQL["groups"].replace("{outcomes}", outcomes).replace("{schema}", schema).replace("{apart}", apart)


def failure_groups(ask: Ask, outcomes: str, *, now: datetime, schema: str = "") -> tuple[FailureGroup, ...]:
    """Return the incomplete outcomes of a query for rows of `run_outcomes`, by cause.

    The catalogue, and scans with a long cooldown as of `now`, are in separate groups. `schema` is as in `grouped`.
    """
    long = f"coalesce(o.resume_after > TIMESTAMPTZ '{(now + LONG_COOLDOWN).isoformat()}', false)"
    return tuple(
        FailureGroup(
            OutcomeKind(outcome),
            error_code,
            scans,
            accounts,
            resume_after,
            detail or "",
            tuple(Example(**each) for each in examples),
            tuple(usernames or ()),
        )
        for outcome, error_code, scans, accounts, resume_after, _, _, _, detail, examples, usernames in ask(
            grouped(outcomes, schema, apart=f"o.surface = '', {long}"), []
        )
    )


def failure_groups_of(connection: Connection, run_id: str, *, now: datetime) -> tuple[FailureGroup, ...]:
    """Return the failure groups of a run in the warehouse."""
    outcomes = f"FROM core.run_outcomes WHERE run_id = {literal(run_id)}"
    return failure_groups(asking(connection), outcomes, now=now, schema="core.")


def expired_accounts(connection: Connection) -> int:
    """Return how many accounts' access tokens must be renewed."""
    query = "SELECT count(*) FROM core.accounts WHERE status = 'token_expired' AND removed_at IS NULL"
    return int(value(connection.db, query))
