"""What went otherwise than complete in a run, grouped by its cause; the same SQL for the warehouse and the snapshot."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select

from connectors.warehouse.runs.selection import Ask, asking
from models.runs import OutcomeKind
from models.tables import core_accounts

# Detail and correlation ids are of the same scans: support is asked about one of them, not about a mixture.
_GROUPS = """
SELECT
    o.outcome, coalesce(o.error_code, '') AS error_code, count(*) AS scans,
    count(DISTINCT o.account_id) AS accounts, max(o.resume_after) AS resume_after,
    coalesce(arg_min_null(o.detail, (o.account_id, o.surface)), '') AS detail,
    arg_min({
        'ig_username': coalesce(a.ig_username, o.account_id), 'surface': o.surface,
        'correlation_id': o.correlation_id, 'account_id': o.account_id
    }, (o.account_id, o.surface), 3) AS examples
FROM {schema}.run_outcomes AS o LEFT JOIN {schema}.accounts AS a USING (account_id)
WHERE o.run_id = $1 AND o.outcome NOT IN ('complete', 'recent', 'skipped')
GROUP BY o.outcome, coalesce(o.error_code, ''), o.surface = ''
ORDER BY scans DESC, o.outcome, error_code
"""


@dataclass(frozen=True, slots=True)
class Example:
    """One scan that went otherwise than complete; `surface` and `account_id` are empty for the catalogue."""

    ig_username: str
    surface: str
    correlation_id: str | None
    account_id: str = ""

    def __str__(self) -> str:
        return f"{self.surface} of account {self.account_id}" if self.surface else "the account catalogue"


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Scans of a run with the same outcome and error code, up to three of them as examples; `detail` is the first's."""

    outcome: OutcomeKind
    error_code: str
    scans: int
    accounts: int
    resume_after: datetime | None
    detail: str
    examples: tuple[Example, ...]

    @property
    def example(self) -> Example:
        """Return the first example."""
        return self.examples[0]


def failure_groups(ask: Ask, schema: str, run_id: str) -> tuple[FailureGroup, ...]:
    """Return what went otherwise than complete or skipped in a run, most scans first; the catalogue is apart.

    `schema` is "core" where `ask` asks the warehouse and "main" where it asks the snapshot.
    """
    return tuple(
        FailureGroup(
            OutcomeKind(outcome),
            error_code,
            scans,
            accounts,
            resume_after,
            detail,
            tuple(Example(**each) for each in examples),
        )
        for outcome, error_code, scans, accounts, resume_after, detail, examples in ask(
            _GROUPS.replace("{schema}", schema), [run_id]
        )
    )


def failure_groups_of(connection: Connection, run_id: str) -> tuple[FailureGroup, ...]:
    """Return the failure groups of a run that the warehouse holds."""
    return failure_groups(asking(connection), "core", run_id)


def expired_accounts(connection: Connection) -> int:
    """Return how many accounts' access tokens must be renewed."""
    table = core_accounts.c
    statement = select(func.count()).where(table.status == "token_expired", table.removed_at.is_(None))
    return int(connection.execute(statement).scalar_one())
