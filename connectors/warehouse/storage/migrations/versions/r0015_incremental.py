"""Incremental scans: the range of the last closed scans, the order they proved, and when a full one is due."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_INSTANT = sa.TIMESTAMP(timezone=True)
_FULL_SHARE = "After which part of the refresh interval, from complete_at, the next full scan is due; 0 to 1."

_COLUMNS = (
    (
        "walks",
        "core",
        "recent_at",
        _INSTANT,
        "When a recent scan since then reached known territory; NULL when none has.",
    ),
    (
        "walks",
        "core",
        "covered_from",
        _INSTANT,
        (
            "What was published after this was looked through at recent_at; of what is older, complete_at says when it"
            " was last seen."
        ),
    ),
    ("walks", "core", "pages", sa.BIGINT, "Pages of the last full scan; NULL where an older version made it."),
    ("walks", "core", "items", sa.BIGINT, "Records on those pages."),
    (
        "walks",
        "core",
        "item_order",
        sa.VARCHAR,
        "newest_first where full scans found posts listed so, pins aside; NULL where they did not, or for stories.",
    ),
    (
        "walks",
        "core",
        "order_broken_by",
        sa.VARCHAR,
        "The post by which the last full scan found another order; empty for one without an id.",
    ),
    (
        "walks",
        "core",
        "order_proofs",
        sa.INTEGER,
        "Full scans in a row that must keep the order before item_order says so.",
    ),
    ("walks", "core", "full_share", sa.DOUBLE, _FULL_SHARE),
    (
        "checkpoints",
        "ops",
        "known_seq",
        sa.BIGINT,
        "It may stop among posts known when this landing closed a scan; NULL: it is full.",
    ),
    (
        "checkpoints",
        "ops",
        "known_run",
        sa.INTEGER,
        "Posts in a row, up to the last, that are known and older than the lookback window.",
    ),
    ("checkpoints", "ops", "read_to", _INSTANT, "When the last post after the pins was published."),
    (
        "checkpoints",
        "ops",
        "order_broken_by",
        sa.VARCHAR,
        "The first post by which it was not newest first; empty for one without an id.",
    ),
    ("checkpoints", "ops", "full_share", sa.DOUBLE, _FULL_SHARE),
    ("missing", "ops", "needs_full", sa.BOOLEAN, "Whether only a full scan may confirm that it is gone."),
    (
        "runs",
        "core",
        "requests",
        sa.BIGINT,
        "Requests it made, retries included; NULL while it has no end, and before 0.2.",
    ),
    (
        "runs",
        "core",
        "full_requests",
        sa.BIGINT,
        "Requests it would have made with full scans alone, by the pages of the last ones.",
    ),
)

_COMMENTS = (
    ("COLUMN core.walks.seq", "The landing of the last page of the last closed scan, full or recent; NULL before 0.2."),
    ("TABLE core.walks", "The last closed scans of each partition: what a full one saw was there at complete_at."),
    ("COLUMN ops.checkpoints.state", "walking, complete, recent or abandoned."),
    ("COLUMN core.run_outcomes.outcome", "complete, recent, skipped, deferred, denied, not_found or failed."),
    ("COLUMN ops.missing.since", "When a closed scan without rejected records first missed it; NULL while none has."),
    (
        "TABLE ops.missing",
        "Items that a closed scan missed and another one has yet to confirm, or to decide on, as removed.",
    ),
)


def upgrade() -> None:
    """Add the columns. No earlier scan has checked the order, so the next scan of each account is full."""
    for table, schema, name, kind, comment in _COLUMNS:
        op.add_column(table, sa.Column(name, kind, comment=comment), schema=schema)
    for what, comment in _COMMENTS:
        text = comment.replace("'", "''")
        op.execute(f"COMMENT ON {what} IS '{text}'")
    # Removals that await confirmation are confirmed by full scans only, as before.
    op.execute("UPDATE ops.missing SET needs_full = since IS NOT NULL")
