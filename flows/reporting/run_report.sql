-- What a snapshot says about accounts, a run and the data. The variables are those of Reader, and `runs`: this run, and those
-- that it resumed. What is new is so since `begun`. First what the other queries refer to.

-- name: chosen
CREATE TEMP TABLE chosen AS
SELECT account_id FROM accounts WHERE getvariable('is_everything') OR account_id IN getvariable('account_ids')

-- name: fresh
CREATE TEMP TABLE fresh AS
SELECT *, coalesce(stale_at < getvariable('made_at'), false) AS is_overdue
FROM freshness WHERE account_id IN (FROM chosen) AND surface IN getvariable('surfaces')

-- name: reported
-- The runs after which what they found was reported. What unfinished ones found, which were interrupted, or ended but were
-- not published, is reported by the next run that ends.
CREATE TEMP VIEW reported AS
SELECT seq FROM runs AS r
WHERE state IN ('complete', 'partial', 'failed') AND kind IN ('sync', 'backfill')
  AND NOT EXISTS (FROM runs WHERE resumes = r.run_id)

-- name: last_outcomes
CREATE TEMP VIEW last_outcomes AS
SELECT o.account_id, o.surface, unnest(arg_max({
    'outcome': o.outcome, 'error_code': o.error_code, 'detail': o.detail, 'ended_at': o.ended_at,
    'correlation_id': o.correlation_id, 'resume_after': o.resume_after
}, r.seq))
FROM run_outcomes AS o JOIN runs AS r USING (run_id) LEFT JOIN accounts AS a USING (account_id)
WHERE a.removed_at IS NULL AND (
    o.resource = 'accounts' OR (o.account_id IN (FROM chosen) AND o.surface IN getvariable('surfaces'))
)
GROUP BY o.resource, o.account_id, o.surface

-- name: begun
SET VARIABLE begun = (
    SELECT min(started_at) FROM runs
    WHERE list_contains(getvariable('runs'), run_id) OR seq > (
        SELECT coalesce(max(seq), 0) FROM reported
        WHERE seq < (SELECT seq FROM runs WHERE run_id = getvariable('runs')[1])
    )
)

-- name: outcomes
SELECT surface, histogram(outcome) AS outcomes FROM run_outcomes WHERE run_id = getvariable('runs')[1]
GROUP BY surface ORDER BY surface

-- name: expired
-- Newest first, because older ones have been reported before.
SELECT account_id, ig_username, token_expired_since AS since, media_as_of,
    coalesce(token_expired_since >= getvariable('begun'), false) AS is_new
FROM expired_accounts WHERE account_id IN (FROM chosen)
ORDER BY token_expired_since DESC, ig_username, account_id

-- name: renewed
SELECT n.account_id, any_value(a.ig_username) AS ig_username, n.valid_from AS since
FROM account_status_history AS n
JOIN account_status_history AS o ON o.account_id = n.account_id AND o.valid_to = n.valid_from
JOIN accounts AS a ON a.account_id = n.account_id AND a.removed_at IS NULL
WHERE n.account_id IN (FROM chosen) AND n.status = 'active' AND n.valid_to IS NULL
  AND n.valid_from >= getvariable('begun') AND o.status = 'token_expired'
GROUP BY ALL ORDER BY ig_username, n.account_id

-- name: freshness
-- An account with an expired token cannot be scanned: it has no stale_at, and is counted separately.
SELECT
    surface,
    count(stale_at) AS accounts,
    count(complete_at) FILTER (stale_at IS NOT NULL AND NOT is_overdue) AS fresh,
    count(*) FILTER (is_overdue) AS stale,
    count(stale_at) FILTER (complete_at IS NULL) AS never,
    count(*) FILTER (stale_at IS NULL) AS expired,
    min(greatest(complete_at, recent_at)) FILTER (stale_at IS NOT NULL) AS oldest,
    greatest(
        epoch(getvariable('made_at')) - epoch(min(stale_at)) + getvariable('stale_after'), 0
    )::BIGINT AS age_seconds,
    getvariable('stale_after') AS stale_after, min(due_at) AS due_at
FROM fresh GROUP BY surface ORDER BY surface

-- name: stale
SELECT account_id, ig_username, surface, complete_at, outcome, error_code, resume_after FROM fresh
WHERE is_overdue ORDER BY stale_at, ig_username, surface

-- name: undecided
-- Accounts whose scans could not mark removals because of rejected records, for longer than the limit of stale.
SELECT account_id, ig_username, surface, removals_undecided_since FROM fresh
WHERE removals_undecided_since < getvariable('made_at') - to_seconds(getvariable('stale_after'))
ORDER BY removals_undecided_since, ig_username, surface

-- name: recent
-- For accounts with recent scans after a full one: the greatest ages, in seconds, of both kinds of scans.
SELECT
    surface, count(*) AS accounts, epoch(getvariable('made_at')) - epoch(min(recent_at)) AS recent,
    epoch(getvariable('made_at')) - epoch(min(complete_at)) AS complete
FROM fresh WHERE recent_at IS NOT NULL AND stale_at IS NOT NULL GROUP BY surface ORDER BY surface

-- name: gaps
SELECT g.*, a.ig_username FROM gaps AS g LEFT JOIN accounts AS a USING (account_id)
WHERE g.account_id IN (FROM chosen) ORDER BY g.since, g.surface

-- name: quarantine
SELECT reason, count(*) AS records FROM quarantine
WHERE (getvariable('is_everything') OR account_id = '' OR account_id IN (FROM chosen))
  AND (surface = '' OR surface IN getvariable('surfaces'))
GROUP BY reason ORDER BY records DESC, reason

-- name: new_fields
-- Nothing is reported for the first run with media, in which every field is new.
SELECT resource, path, type FROM fields
WHERE first_seen_at >= getvariable('begun') AND EXISTS (FROM media WHERE first_seen_at < getvariable('begun'))
ORDER BY resource, path

-- name: retyped_fields
SELECT resource, path, type FROM fields
WHERE first_seen_at < getvariable('begun') AND last_type_change_at >= getvariable('begun')
ORDER BY resource, path
