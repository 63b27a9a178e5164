"""Accounts are protected against mass removal, runs record their service, and status periods end on removal."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_INSTANT = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    """Add two tables, and columns of accounts and runs; close the status periods of removed accounts."""
    op.create_table(
        "missing_accounts",
        sa.Column(
            "account_id",
            sa.VARCHAR,
            nullable=False,
            comment="The account's id, a UUID in lower case; in older warehouses as the API wrote it first.",
        ),
        sa.Column("since", _INSTANT, nullable=False, comment="When a complete catalogue first missed it."),
        sa.Column(
            "missed_from",
            _INSTANT,
            comment="When the scan of the first such catalogue that was not empty began; NULL if all were.",
        ),
        schema="ops",
        comment="Accounts missing from the catalogue whose removal awaits confirmation.",
    )
    op.create_table(
        "service",
        sa.Column("base_url", sa.VARCHAR, nullable=False, comment="Address of the service, without /api/v1."),
        schema="ops",
        comment="The service that this warehouse belongs to: one row, or none before anything was merged.",
    )
    _columns()
    _gaps()
    # Scopes are looked up with the account's id in lower case.
    op.execute("UPDATE ops.holds SET scope = lower(scope) WHERE scope <> lower(scope)")


def _columns() -> None:
    for table, column in (
        (
            "accounts",
            sa.Column(
                "listed_as",
                sa.VARCHAR,
                comment="The id as the API last wrote it, for requests; NULL where that is account_id.",
            ),
        ),
        (
            "accounts",
            sa.Column(
                "unknown_status",
                sa.VARCHAR,
                comment="The status it was last listed with, if gramhouse does not know it; otherwise NULL.",
            ),
        ),
        (
            "runs",
            sa.Column(
                "base_url",
                sa.VARCHAR,
                comment="Address of the service, without /api/v1; NULL for runs of older versions.",
            ),
        ),
        (
            "runs",
            sa.Column(
                "accept_removals",
                sa.BOOLEAN,
                comment="Whether a person confirmed account removals beforehand.",
            ),
        ),
        (
            "run_counts",
            sa.Column(
                "accounts_removed",
                sa.BIGINT,
                comment="Accounts marked removed because its catalogue was complete without them.",
            ),
        ),
        (
            "runs",
            sa.Column(
                "accounts_missing",
                sa.BIGINT,
                comment="Accounts missing from the catalogue whose removal awaits confirmation.",
            ),
        ),
    ):
        op.add_column(table, column, schema="core")


def _gaps() -> None:
    op.execute(
        "UPDATE core.account_status_history AS h SET valid_to = a.removed_at FROM core.accounts AS a"
        " WHERE h.account_id = a.account_id AND h.valid_to IS NULL AND a.removed_at IS NOT NULL"
    )
    op.execute(
        "INSERT INTO core.account_status_history (account_id, status, valid_from)"
        " SELECT account_id, 'removed', removed_at FROM core.accounts WHERE removed_at IS NOT NULL ORDER BY account_id"
    )
