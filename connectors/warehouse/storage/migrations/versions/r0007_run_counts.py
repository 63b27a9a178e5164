"""The counts of runs move to their own table, which merges update, with a row for changes that no run recorded."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_COUNTS = {
    "pages": "Pages it landed, as far as they are merged; NULL where an older gramhouse did not record it.",
    "items": "Records on those pages, accounts and media.",
    "added": "Media items never seen before.",
    "changed": "Changes of media items, in content or counts: one for each.",
    "removed": "Media items marked removed because its scan was complete without them.",
    "expired": "Stories marked expired because its scan was complete without them.",
    "returned": "Media items marked removed or expired that were seen again.",
    "quarantined": "Records that went to quarantine.",
}

# Changes that the tables show, but no run recorded. Removed items were removed or expired, and did not return. A change
# is visible as a version, a count or a later time; the change of a returned item was recorded as its return.
_UNRECORDED = """
WITH recorded AS (
    SELECT
        coalesce(sum(added), 0) AS added, coalesce(sum(changed), 0) AS changed, coalesce(sum(removed), 0) AS removed,
        coalesce(sum(expired), 0) AS expired, coalesce(sum(returned), 0) AS returned,
        coalesce(sum(quarantined), 0) AS quarantined
    FROM core.runs
),
events AS (
    SELECT hash(account_id, surface, media_id, first_seen_at) AS event FROM core.media
    UNION
    SELECT hash(account_id, surface, media_id, changed_at) FROM core.media
    UNION
    SELECT hash(account_id, surface, media_id, valid_to) FROM core.media_superseded
    UNION
    SELECT hash(account_id, surface, media_id, observed_at) FROM core.media_metrics
),
shown AS (
    SELECT
        (SELECT count(*) FROM core.media) AS items, (SELECT count(*) FROM events) AS events,
        (SELECT count(*) FROM core.media WHERE removed_at IS NOT NULL) AS gone,
        (SELECT count(*) FROM core.media WHERE removal = 'expired') AS expired,
        (SELECT count(*) FROM core.quarantine) AS quarantined
),
unrecorded AS (
    SELECT
        s.items - r.added AS added, greatest(0, s.events - s.items - r.changed - r.returned) AS changed,
        s.gone - (r.removed + r.expired - r.returned) AS gone, s.expired - r.expired AS expired,
        greatest(0, s.quarantined - r.quarantined) AS quarantined
    FROM shown AS s, recorded AS r
)
INSERT INTO core.run_counts (run_id, added, changed, removed, expired, returned, quarantined)
SELECT
    '', added, changed, greatest(0, gone) - greatest(0, least(gone, expired)), greatest(0, least(gone, expired)),
    greatest(0, -gone), quarantined
FROM unrecorded WHERE added <> 0 OR changed <> 0 OR gone <> 0 OR quarantined <> 0
"""


def upgrade() -> None:
    """Move the counts of runs into a table, with a row for unrecorded changes."""
    op.create_table(
        "run_counts",
        sa.Column(
            "run_id",
            sa.VARCHAR,
            nullable=False,
            comment="The run that landed the pages; empty for runs no longer listed.",
        ),
        *(sa.Column(name, sa.BIGINT, comment=comment) for name, comment in _COUNTS.items()),
        schema="core",
        comment="What each run did to the warehouse: added to by every merge, in its transaction.",
    )
    names = ", ".join(_COUNTS)
    op.execute(f"INSERT INTO core.run_counts (run_id, {names}) SELECT run_id, {names} FROM core.runs")  # noqa: S608
    op.execute(_UNRECORDED)
    for name in _COUNTS:
        op.drop_column("runs", name, schema="core")
