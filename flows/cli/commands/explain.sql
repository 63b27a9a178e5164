-- What the snapshot knows of one item or one account. The parameters are its id, and the surface and media id of an item.

-- name: found
-- The second parameter is the name of an account.
SELECT account_id, ig_username, NULL AS surface, NULL AS media_id FROM accounts WHERE $2 IN ({names})
UNION ALL
SELECT account_id, ig_username, surface, media_id FROM media WHERE media_id = $1 OR permalink = $1
ORDER BY ALL

-- name: item
SELECT
    m.*, k.first_run_seq, if(k.removed_at IS NULL, k.missed_at, NULL) AS missing_since, c.complete_at, c.recent_at,
    a.token_expired_since, a.removed_at AS account_removed_at
FROM media AS m
JOIN core.media AS k USING (account_id, surface, media_id)
LEFT JOIN completed_scans AS c USING (account_id, surface)
LEFT JOIN accounts AS a USING (account_id)
WHERE m.account_id = $1 AND m.surface = $2 AND m.media_id = $3

-- name: versions
FROM media_history WHERE account_id = $1 AND surface = $2 AND media_id = $3 ORDER BY valid_from, valid_to

-- name: counts
SELECT observed_at AS at, run_seq, metric, lag(value) OVER (PARTITION BY metric ORDER BY observed_at) AS old, value
FROM media_metrics WHERE account_id = $1 AND surface = $2 AND media_id = $3 ORDER BY observed_at, metric

-- name: events
SELECT changed_at AS at, run_seq, event FROM core.events WHERE account_id = $1 AND surface = $2 AND media_id = $3

-- name: raw
SELECT seen_at, run_id, correlation_id, payload
FROM raw_versions WHERE account_id = $1 AND surface = $2 AND media_id = $3 ORDER BY landed, position

-- name: account
SELECT * FROM accounts WHERE account_id = $1

-- name: surfaces
SELECT
    f.surface, f.complete_at, f.recent_at, f.outcome, f.error_code, f.resume_after, f.last_tried_at, f.is_stale,
    f.items_missing, f.item_order, f.full_due_at, f.gap_since, g.pages AS gap_pages, g.cursor IS NOT NULL AS gap_resumes
FROM freshness AS f LEFT JOIN gaps AS g USING (account_id, surface)
WHERE f.account_id = $1 ORDER BY f.surface

-- name: statuses
SELECT valid_from AS at, status FROM account_status_history WHERE account_id = $1 ORDER BY valid_from

-- name: renames
SELECT changed_at AS at, old_ig_username AS old, new_ig_username AS new
FROM account_changes WHERE account_id = $1 AND change = 'renamed'

-- name: outcomes
SELECT o.ended_at AS at, o.run_id, r.kind, o.surface, o.outcome, o.pages, o.items, o.error_code, o.detail, o.correlation_id
FROM run_outcomes AS o LEFT JOIN runs AS r USING (run_id)
WHERE o.account_id = $1 ORDER BY o.ended_at, o.surface

-- name: runs
-- A run that was killed has no end; it was over when the next one began.
SELECT seq, run_id, started_at, coalesce(ended_at, lead(started_at) OVER (ORDER BY seq)) AS ended_at
FROM runs WHERE kind <> 'totals' ORDER BY seq
