-- The queries of a run's summary. All results are limited; `total` is the number of all rows.

-- name: run
SELECT * FROM runs WHERE run_id = $1

-- name: begun
-- Interrupted runs reported nothing, so the next run that ends also reports their findings. $1[1] is that run.
SELECT min(started_at) AS since FROM runs
WHERE list_contains($1, run_id) OR seq > (
    SELECT coalesce(max(seq), 0) FROM runs
    WHERE state IN ('complete', 'partial', 'failed') AND kind IN ('sync', 'backfill')
      AND seq < (SELECT seq FROM runs WHERE run_id = $1[1])
)

-- name: last_runs
SELECT * FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT $1

-- name: resumed
-- The runs that a run resumed, or merged pages of.
SELECT * FROM runs WHERE list_contains($1, run_id) ORDER BY seq

-- name: outcomes
SELECT surface, outcome, count(*) AS scans FROM run_outcomes WHERE run_id = $1
GROUP BY ALL ORDER BY surface, outcome

-- name: warnings
SELECT code, count, detail, hint, makes_partial FROM run_warnings WHERE run_id = $1
ORDER BY makes_partial DESC, code

-- name: newly_expired
SELECT account_id, ig_username, token_expired_since AS since, media_as_of, count(*) OVER () AS total
FROM expired_accounts WHERE token_expired_since >= $1
ORDER BY ig_username, account_id LIMIT $2

-- name: still_expired
-- Newest first, because older ones have been reported before.
SELECT account_id, ig_username, token_expired_since AS since, media_as_of, count(*) OVER () AS total
FROM expired_accounts WHERE token_expired_since < $1
ORDER BY token_expired_since DESC, ig_username, account_id LIMIT $2

-- name: recovered
WITH recovered AS (
    SELECT n.account_id, n.valid_from AS since
    FROM account_status_history AS n
    JOIN account_status_history AS o ON o.account_id = n.account_id AND o.valid_to = n.valid_from
    WHERE n.status = 'active' AND n.valid_to IS NULL AND n.valid_from >= $1 AND o.status = 'token_expired'
)
SELECT
    r.account_id, a.ig_username, r.since, min(greatest(w.complete_at, w.recent_at)) AS media_as_of,
    count(*) OVER () AS total
FROM recovered AS r
JOIN accounts AS a ON a.account_id = r.account_id AND a.removed_at IS NULL
LEFT JOIN completed_scans AS w ON w.resource = 'media' AND w.account_id = r.account_id
GROUP BY ALL ORDER BY a.ig_username, r.account_id LIMIT $2

-- name: stale_after
SELECT stale_after FROM published

-- name: freshness
-- An account with an expired token cannot be scanned: it has no stale_at, and is counted separately.
SELECT
    surface,
    count(stale_at) AS accounts,
    count(complete_at) FILTER (stale_at >= $1) AS fresh,
    count(complete_at) FILTER (stale_at < $1) AS stale,
    count(stale_at) FILTER (complete_at IS NULL) AS never,
    count(*) FILTER (stale_at < $1) AS overdue,
    count(*) FILTER (stale_at IS NULL) AS expired,
    min(greatest(complete_at, recent_at)) FILTER (stale_at IS NOT NULL) AS oldest
FROM freshness GROUP BY surface ORDER BY surface

-- name: new_fields
-- Nothing is reported for the first run with media, in which every field is new.
SELECT resource, path, type, count(*) OVER () AS total FROM fields
WHERE first_seen_at >= $1 AND EXISTS (FROM media WHERE first_seen_at < $1)
ORDER BY resource, path LIMIT $2

-- name: retyped_fields
SELECT resource, path, type, count(*) OVER () AS total FROM fields
WHERE first_seen_at < $1 AND last_type_change_at >= $1
ORDER BY resource, path LIMIT $2
