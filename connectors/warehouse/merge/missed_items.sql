-- Finds the items that the scans in scans_with_unseen did not list. Writes no table.
--
-- A full scan covers every item, a recent one only items published after `covered_from`. Scans that rejected a record
-- decide nothing, because it may be the missing item. Nor do those of an account whose token had expired.

-- Not items that another scan has added, changed or returned since this one began: they may be on a page that this scan
-- had passed already. Posts with the same time as a recent scan's last one are not covered, because they may follow it
-- in the feed. `removal` is NULL while another scan must decide: it must begin some time after the end of the first
-- that missed the item. An item whose lifetime was over when it was first missed needs no second scan. A time of a
-- clock that was ahead, after the end of this scan, is replaced. Items that only scans missed that decide nothing have no
-- `missing_since`. `last_seen_at`: if no scan missed it before, the last closed scan saw it.
CREATE OR REPLACE TEMP TABLE missed_items AS
WITH seen AS (
    SELECT s.scan_id, s.account_id, s.surface, s.media_id
    FROM sightings AS s SEMI JOIN scans_with_unseen USING (scan_id) WHERE s.media_id IS NOT NULL
    UNION
    SELECT s.scan_id, s.account_id, s.surface, s.media_id
    FROM ops.seen AS s SEMI JOIN scans_with_unseen USING (scan_id)
),
covered AS (
    SELECT
        w.scan_id, w.run_id, w.started_at, w.complete_at, w.has_rejected,
        w.has_rejected OR w.token_expired AS decides_nothing,
        m.account_id, m.surface, m.media_id, m.published_at, m.written_at,
        w.complete_at - coalesce(m.published_at, m.first_seen_at) >= {lifetimes}[m.surface] AS has_ended
    FROM {items} AS m
    JOIN scans_with_unseen AS w ON w.account_id = m.account_id AND w.surface = m.surface
    WHERE m.removed_at IS NULL AND coalesce(m.written_seq, 0) < w.began_seq
      AND (NOT w.is_recent OR m.published_at > w.covered_from)
)
SELECT
    c.scan_id, c.run_id, c.has_rejected, c.account_id, c.surface, c.media_id,
    coalesce(
        p.last_seen_at,
        greatest(c.written_at, w.complete_at, CASE WHEN c.published_at > w.covered_from THEN w.recent_at END)
    ) AS last_seen_at,
    CASE WHEN c.decides_nothing THEN p.missing_since ELSE least(p.missing_since, c.complete_at) END AS missing_since,
    CASE
        WHEN c.decides_nothing THEN NULL
        WHEN p.missing_since IS NULL THEN if(c.has_ended, 'expired', NULL)
        WHEN c.started_at >= p.missing_since + INTERVAL {confirm_after_hours} HOUR THEN 'removed'
    END AS removal
FROM covered AS c
ANTI JOIN seen AS s USING (scan_id, account_id, surface, media_id)
LEFT JOIN ops.missing AS p
    ON p.account_id = c.account_id AND p.surface = c.surface AND p.media_id = c.media_id
LEFT JOIN core.completed_scans AS w
    ON w.resource = '{resource}' AND w.account_id = c.account_id AND w.surface = c.surface;

SELECT count(*) AS missed, count(removal) AS removed FROM missed_items;
