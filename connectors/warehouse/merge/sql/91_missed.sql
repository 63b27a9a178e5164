-- The items that closed scans covered and did not list. Writes nothing.
--
-- Items with the same time as the last post of a recent scan are not covered: they may follow it. A story whose lifetime
-- was over when it was first missed has expired. Any other item is confirmed as removed by a scan that began an hour
-- after the end of the first that missed it.
CREATE OR REPLACE TEMP TABLE missed AS
SELECT
    m.rowid AS row, m.account_id, m.surface, m.media_id, c.n, c.run_seq, c.decides, c.closed_at,
    m.missed_at IS NULL AS is_first,
    is_first AND coalesce(c.closed_at - coalesce(m.published_at, m.first_seen_at) >= to_seconds(c.lifetime), false)
        AS is_expired,
    coalesce(c.started_at >= m.missed_at + to_seconds({confirm_after}), false) AS is_confirmed
FROM closing AS c
JOIN core.media AS m ON m.account_id = c.account_id AND m.surface = c.surface
WHERE m.removed_at IS NULL AND m.seen_seq < c.began_seq AND (NOT c.is_recent OR m.published_at > c.covered_from)
