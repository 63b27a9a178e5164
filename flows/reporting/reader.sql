-- What the queries of a Reader refer to. The variables are described there.

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
