"""Removals: decided only by closed scans that rejected no record; a mass removal requires another full scan.

A full scan removes every item that it did not list. A recent scan covers only items published after `covered_from`, and
needs a second one to confirm: a post may move from one page to another between two requests.
"""

from dataclasses import dataclass

from connectors.warehouse.merge.merge_batch import MergeBatch
from models.removal import CONFIRM_AFTER_HOURS, MASS_REMOVAL_THRESHOLD, STORY_LIFE_HOURS

# A missing item that any scan has seen again, complete or not, is not missing any more.
_SEEN_AGAIN = """
DELETE FROM ops.missing
WHERE (account_id, surface, media_id) IN (
    SELECT (account_id, surface, media_id) FROM {sightings} WHERE media_id IS NOT NULL
)
"""

_EXPIRED = (
    "m.surface = 'stories' AND w.complete_at - coalesce(m.published_at, m.first_seen_at)"
    f" >= INTERVAL {STORY_LIFE_HOURS} HOUR"
)

# Posts with the same time as the scan's last one are not covered, because they may follow it in the feed.
_COVERED = "(NOT w.is_recent OR m.published_at > w.covered_from)"

# Scans that may have missed an item: most full scans see every present row, and then no ids need be compared. Rows are
# identified by their rowid before the first slice of a merge. Recent scans do not read all rows, so their ids are
# always compared, which takes about 5 % of a run; to avoid that, every merge would have to read the times of all rows.
_WITH_UNSEEN = """
WITH seen AS (
    SELECT scan_id, stored FROM {sightings} WHERE stored IS NOT NULL
    UNION ALL
    SELECT b.scan_id, p.stored
    FROM ops.seen AS b SEMI JOIN {finished} USING (scan_id) JOIN {stored} AS p USING (account_id, surface, media_id)
),
with_unseen AS (
    SELECT w.scan_id
    FROM {finished} AS w JOIN {stored} AS p USING (account_id, surface) ANTI JOIN seen USING (scan_id, stored)
    WHERE w.resource = 'media' AND p.removed_at IS NULL
    UNION ALL
    -- Items that another scan added or returned in this slice before this scan began are not among these rows.
    SELECT w.scan_id FROM {finished} AS w JOIN ops.staging AS s USING (resource, account_id, surface)
    WHERE w.resource = 'media' AND s.seq < w.began_seq
)
SELECT * EXCLUDE (latest, before) FROM {finished} SEMI JOIN with_unseen USING (scan_id)
"""
_ALL_WITH_UNSEEN = "FROM {finished} WHERE resource = 'media'"

# Not items that another scan has added, changed or returned since this one began: they may be on a page that this scan
# had passed already.
_MISSED = f"""
WITH seen AS (
    SELECT s.scan_id, s.account_id, s.surface, s.media_id
    FROM {{sightings}} AS s SEMI JOIN {{scans}} USING (scan_id) WHERE s.media_id IS NOT NULL
    UNION
    SELECT s.scan_id, s.account_id, s.surface, s.media_id
    FROM ops.seen AS s SEMI JOIN {{scans}} USING (scan_id)
),
known AS (
    SELECT
        w.scan_id, w.run_id, w.started_at, w.complete_at, w.has_rejected, m.account_id, m.surface, m.media_id,
        w.is_recent, {_EXPIRED} AS expired
    FROM core.media AS m
    JOIN {{scans}} AS w ON w.account_id = m.account_id AND w.surface = m.surface
    WHERE m.removed_at IS NULL AND coalesce(m.written_seq, 0) < w.began_seq AND {_COVERED}
)
SELECT
    k.*, p.since, p.last_seen_at, coalesce(p.needs_full, false) AS needs_full,
    coalesce(k.started_at >= p.since + INTERVAL {CONFIRM_AFTER_HOURS} HOUR, false) AS confirmed
FROM known AS k
ANTI JOIN seen AS s USING (scan_id, account_id, surface, media_id)
LEFT JOIN ops.missing AS p USING (account_id, surface, media_id)
"""  # noqa: S608

# The limit is a share of the items known before the scan began: new posts must not raise it. Missed items were known,
# whatever their times are, because a clock may have been wrong.
_KNOWN_BEFORE = f"""
SELECT m.account_id, m.surface, count(*) AS items
FROM core.media AS m
JOIN {{finished}} AS w ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
LEFT JOIN {{missed}} AS x ON x.account_id = m.account_id AND x.surface = m.surface AND x.media_id = m.media_id
WHERE m.removed_at IS NULL AND NOT ({_EXPIRED}) AND {_COVERED}
  AND (m.first_seen_at < w.started_at OR x.media_id IS NOT NULL)
GROUP BY m.account_id, m.surface
"""  # noqa: S608

_MASS_REMOVAL = f"""
SELECT x.account_id, x.surface
FROM {{missed}} AS x
JOIN {{known_before}} AS k USING (account_id, surface)
WHERE NOT x.expired
GROUP BY x.account_id, x.surface, k.items
HAVING count(*) FILTER (NOT x.needs_full) > {MASS_REMOVAL_THRESHOLD} * k.items
"""  # noqa: S608

# An expired story is removed even in a mass removal. A rejected record may be the missing item, so a scan that rejected
# records removes nothing; the next scan without rejected records decides.
_GONE = """
SELECT
    x.account_id, x.surface, x.media_id, x.run_id, coalesce(x.since, x.complete_at) AS removed_at,
    CASE WHEN x.expired THEN 'expired' ELSE 'removed' END AS removal
FROM {missed} AS x
LEFT JOIN {mass_removals} AS b USING (account_id, surface)
WHERE NOT x.has_rejected AND (
    x.expired
    OR (x.needs_full AND x.confirmed AND NOT x.is_recent)
    OR (NOT x.needs_full AND b.account_id IS NULL AND (x.since IS NOT NULL OR NOT x.is_recent))
)
"""

# When the last closed scan saw an item that is not missing.
_LAST_CLOSED = "greatest(w.complete_at, CASE WHEN m.published_at > w.covered_from THEN w.recent_at END)"

# Rows are deleted and inserted, because an UPDATE would rewrite whole row groups of its columns.
_GONE_ROWS = f"""
SELECT m.* REPLACE (
    g.removed_at AS removed_at, g.removal AS removal,
    coalesce(p.last_seen_at, greatest(m.written_at, {_LAST_CLOSED}), m.written_at) AS written_at
)
FROM core.media AS m
JOIN {{gone}} AS g USING (account_id, surface, media_id)
LEFT JOIN core.completed_scans AS w ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
LEFT JOIN ops.missing AS p USING (account_id, surface, media_id)
"""  # noqa: S608
_REWRITE = (
    """
DELETE FROM core.media USING {gone} AS g
WHERE media.account_id = g.account_id AND media.surface = g.surface AND media.media_id = g.media_id
""",
    "INSERT INTO core.media BY NAME SELECT * FROM {gone_rows}",
)

# A full scan decides about all missing items of its partition: seen again, removed now, or still missing. A recent scan
# decides only about items that it missed. A scan that rejected records neither sets `since` nor confirms a removal.
_SETTLE = """
DELETE FROM ops.missing USING {finished} AS w
WHERE w.resource = 'media' AND missing.account_id = w.account_id AND missing.surface = w.surface AND NOT w.is_recent
"""

_NEWLY_MISSING = f"""
SELECT
    x.account_id, x.surface, x.media_id,
    CASE WHEN x.has_rejected THEN x.since ELSE coalesce(x.since, x.complete_at) END AS since,
    coalesce(x.last_seen_at, greatest(m.written_at, {_LAST_CLOSED}), m.written_at) AS last_seen_at,
    x.needs_full OR (NOT x.has_rejected AND b.account_id IS NOT NULL) AS needs_full
FROM {{missed}} AS x
LEFT JOIN {{mass_removals}} AS b USING (account_id, surface)
JOIN core.media AS m USING (account_id, surface, media_id)
ANTI JOIN {{gone}} AS g USING (account_id, surface, media_id)
LEFT JOIN core.completed_scans AS w ON w.resource = 'media' AND w.account_id = x.account_id AND w.surface = x.surface
"""  # noqa: S608
_REMEMBER_MISSING = (
    _SETTLE,
    """
DELETE FROM ops.missing
WHERE (account_id, surface, media_id) IN (SELECT (account_id, surface, media_id) FROM {missed})
""",
    "INSERT INTO ops.missing BY NAME SELECT * FROM {newly_missing}",
)


@dataclass(frozen=True, slots=True)
class Removals:
    """Relations: the items that finished scans missed, and those of them that were marked as removed.

    `gone` has the run that completed the scan (`run_id`), and the kind of `removal`.
    """

    missed: str
    gone: str


def mark_gone(batch: MergeBatch, finished: str, sightings: str, stored: str, *, is_first: bool) -> Removals:
    """Mark items as removed that the scans in `finished` did not see.

    `sightings` are the items that the scans of the slice saw, `stored` the rows of their partitions before the slice,
    with their rowids of that time. `is_first`: this is the first slice. Call it after the rows of the slice are
    written, in the same transaction.
    """
    is_any_missing = batch.is_any("ops.missing")
    if is_any_missing:
        batch.run(_SEEN_AGAIN, sightings=sightings)
    with_unseen = _WITH_UNSEEN if is_first else _ALL_WITH_UNSEEN
    scans = batch.table("scans_with_unseen", with_unseen, finished=finished, sightings=sightings, stored=stored)
    if batch.is_any(scans):
        missed = batch.table("missed", _MISSED, sightings=sightings, scans=scans)
    else:
        missed = batch.empty("missed", "scan_id VARCHAR, has_rejected BOOLEAN")
    if not batch.is_any(missed):
        if is_any_missing:
            batch.run(_SETTLE, finished=finished)
        return Removals(missed, batch.empty("gone", "run_id VARCHAR, removal VARCHAR"))
    known_before = batch.table("known_before", _KNOWN_BEFORE, finished=finished, missed=missed)
    mass_removals = batch.table("mass_removals", _MASS_REMOVAL, missed=missed, known_before=known_before)
    gone = batch.table("gone", _GONE, missed=missed, mass_removals=mass_removals)
    batch.run(*_REWRITE, gone=gone, gone_rows=batch.table("gone_rows", _GONE_ROWS, gone=gone))
    newly_missing = batch.table("newly_missing", _NEWLY_MISSING, missed=missed, mass_removals=mass_removals, gone=gone)
    batch.run(*_REMEMBER_MISSING, finished=finished, missed=missed, newly_missing=newly_missing)
    return Removals(missed, gone)
