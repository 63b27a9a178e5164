"""Removals: an item is removed if two closed scans in a row that covered it did not list it.

The second scan must begin some time after the end of the first. A full scan covers every item, a recent one only items
published after `covered_from`. Scans that rejected a record decide nothing, because it may be the missing item.
"""

from connectors.warehouse.merge.merge_batch import MediaItems, MergeBatch
from models.removal import CONFIRM_AFTER_HOURS, STORY_LIFE_HOURS

# A missing item that any scan has seen again, complete or not, is not missing any more.
_SEEN_AGAIN = """
DELETE FROM ops.missing
WHERE (account_id, surface, media_id) IN (
    SELECT (account_id, surface, media_id) FROM {sightings} WHERE media_id IS NOT NULL
)
"""

# Scans that may have missed an item: most full scans see every present row, and then no ids need be compared. Rows are
# identified by their rowid before the merge. Recent scans do not read all rows, so their ids are always compared, which
# takes about 5 % of a run; to avoid that, every merge would have to read the times of all rows.
_WITH_UNSEEN = """
WITH seen AS (
    SELECT scan_id, stored FROM {sightings} WHERE stored IS NOT NULL
    UNION ALL
    SELECT b.scan_id, p.stored
    FROM ops.seen AS b SEMI JOIN finished USING (scan_id) JOIN {stored} AS p USING (account_id, surface, media_id)
),
with_unseen AS (
    SELECT w.scan_id
    FROM finished AS w JOIN {stored} AS p USING (account_id, surface) ANTI JOIN seen USING (scan_id, stored)
    WHERE w.resource = 'media' AND p.removed_at IS NULL
    UNION ALL
    -- Items that another scan added or returned in this batch before this scan began are not among these rows.
    SELECT w.scan_id FROM finished AS w JOIN pages AS s USING (resource, account_id, surface)
    WHERE w.resource = 'media' AND s.seq < w.began_seq
)
SELECT * EXCLUDE (latest, before) FROM finished SEMI JOIN with_unseen USING (scan_id)
"""

# Not items that another scan has added, changed or returned since this one began: they may be on a page that this scan
# had passed already. Posts with the same time as a recent scan's last one are not covered, because they may follow it
# in the feed. `removal` is NULL while another scan must decide. A story that had ended when it was first missed needs
# no second scan. A time of a clock that was ahead, after the end of this scan, is replaced.
_MISSED = f"""
WITH seen AS (
    SELECT s.scan_id, s.account_id, s.surface, s.media_id
    FROM {{sightings}} AS s SEMI JOIN {{scans}} USING (scan_id) WHERE s.media_id IS NOT NULL
    UNION
    SELECT s.scan_id, s.account_id, s.surface, s.media_id
    FROM ops.seen AS s SEMI JOIN {{scans}} USING (scan_id)
),
covered AS (
    SELECT
        w.scan_id, w.run_id, w.started_at, w.complete_at, w.has_rejected, m.account_id, m.surface, m.media_id,
        m.surface = 'stories' AND
            w.complete_at - coalesce(m.published_at, m.first_seen_at) >= INTERVAL {STORY_LIFE_HOURS} HOUR AS has_ended
    FROM core.media AS m
    JOIN {{scans}} AS w ON w.account_id = m.account_id AND w.surface = m.surface
    WHERE m.removed_at IS NULL AND coalesce(m.written_seq, 0) < w.began_seq
      AND (NOT w.is_recent OR m.published_at > w.covered_from)
)
SELECT
    c.scan_id, c.run_id, c.has_rejected, c.account_id, c.surface, c.media_id, p.last_seen_at,
    CASE WHEN c.has_rejected THEN p.missing_since ELSE least(p.missing_since, c.complete_at) END AS missing_since,
    CASE
        WHEN c.has_rejected THEN NULL
        WHEN p.missing_since IS NULL THEN if(c.has_ended, 'expired', NULL)
        WHEN c.started_at >= p.missing_since + INTERVAL {CONFIRM_AFTER_HOURS} HOUR THEN 'removed'
    END AS removal
FROM covered AS c
ANTI JOIN seen AS s USING (scan_id, account_id, surface, media_id)
LEFT JOIN ops.missing AS p USING (account_id, surface, media_id)
"""  # noqa: S608

# When the last closed scan saw an item that is not missing.
_LAST_CLOSED = "greatest(w.complete_at, CASE WHEN m.published_at > w.covered_from THEN w.recent_at END)"

# Rows are deleted and inserted, because an UPDATE would rewrite whole row groups of its columns.
_GONE_ROWS = f"""
SELECT m.* REPLACE (
    x.missing_since AS removed_at, x.removal AS removal,
    coalesce(x.last_seen_at, greatest(m.written_at, {_LAST_CLOSED}), m.written_at) AS written_at
)
FROM core.media AS m
JOIN {{gone}} AS x USING (account_id, surface, media_id)
LEFT JOIN core.completed_scans AS w ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
"""  # noqa: S608
_REWRITE = (
    """
DELETE FROM core.media USING {gone} AS g
WHERE media.account_id = g.account_id AND media.surface = g.surface AND media.media_id = g.media_id
""",
    "INSERT INTO core.media BY NAME SELECT * FROM {gone_rows}",
)

# Items that a scan with rejected records missed are remembered without `missing_since`.
_STILL_MISSING = f"""
SELECT
    x.account_id, x.surface, x.media_id, x.missing_since,
    coalesce(x.last_seen_at, greatest(m.written_at, {_LAST_CLOSED}), m.written_at) AS last_seen_at
FROM {{missed}} AS x
JOIN core.media AS m USING (account_id, surface, media_id)
LEFT JOIN core.completed_scans AS w ON w.resource = 'media' AND w.account_id = x.account_id AND w.surface = x.surface
WHERE x.removal IS NULL
"""  # noqa: S608
_REMEMBER = (
    """
DELETE FROM ops.missing
WHERE (account_id, surface, media_id) IN (SELECT (account_id, surface, media_id) FROM {missed})
""",
    "INSERT INTO ops.missing BY NAME SELECT * FROM {still_missing}",
)


def mark_removed(batch: MergeBatch, items: MediaItems, *, is_closed: bool) -> str | None:
    """Mark items as removed that the scans in `finished` did not see, if an earlier scan had not seen them either.

    `is_closed`: the batch has closed scans of media. Call it after the rows are written, in the same transaction.

    Returns a relation with the missed items: the scan and its run, `has_rejected` of the scan, and `removal` of those
    that are removed now; None if there are none.
    """
    if batch.is_any("ops.missing"):
        batch.run(_SEEN_AGAIN, sightings=items.sightings)
    if not is_closed:
        return None
    scans = batch.table("scans_with_unseen", _WITH_UNSEEN, sightings=items.sightings, stored=items.stored)
    if not batch.is_any(scans):
        return None
    missed = batch.table("missed", _MISSED, sightings=items.sightings, scans=scans)
    if not batch.is_any(missed):
        return None
    still_missing = batch.table("still_missing", _STILL_MISSING, missed=missed)
    gone = batch.view("gone", "FROM {missed} WHERE removal IS NOT NULL", missed=missed)
    if batch.is_any(gone):
        batch.run(*_REWRITE, gone=gone, gone_rows=batch.table("gone_rows", _GONE_ROWS, gone=gone))
    batch.run(*_REMEMBER, missed=missed, still_missing=still_missing)
    return missed
