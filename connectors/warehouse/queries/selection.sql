-- name: find
-- The accounts that each name stands for; an empty list if all of them were removed.
WITH named AS (
    SELECT account_id, removed_at, unnest([{names}]) AS name FROM core.accounts
)
SELECT name, coalesce(list(DISTINCT account_id) FILTER (removed_at IS NULL), []) AS listed
FROM named WHERE name IN (SELECT unnest($1::VARCHAR[])) GROUP BY name

-- name: incomplete
-- By partition, not by run: a backfill of one account must not hide what the last sync left incomplete.
SELECT resource, account_id, surface
FROM core.run_outcomes
GROUP BY resource, account_id, surface
HAVING arg_max(outcome, run_seq) IN ('deferred', 'denied', 'not_found', 'failed')

-- name: choose
WITH present AS (
    SELECT account_id, listed_as, status, ig_username FROM core.accounts WHERE removed_at IS NULL
),
whole AS (
    SELECT account_id FROM present WHERE $everything
    UNION
    SELECT unnest($named::VARCHAR[])
    UNION
    SELECT account_id FROM core.account_periods
    WHERE $expired_since::TIMESTAMPTZ IS NOT NULL AND attribute = 'status' AND value = 'token_expired'
      AND (valid_to IS NULL OR valid_to >= $expired_since::TIMESTAMPTZ)
),
wanted AS (
    SELECT account_id, surface FROM whole CROSS JOIN (SELECT unnest($surfaces::VARCHAR[]) AS surface)
    UNION
    SELECT account_id, surface FROM ({incomplete}) WHERE $failed AND list_contains($surfaces::VARCHAR[], surface)
)
SELECT p.listed_as, p.status, p.ig_username, list(w.surface) AS surfaces
FROM present AS p
JOIN wanted AS w USING (account_id)
GROUP BY p.listed_as, p.status, p.ig_username
ORDER BY p.ig_username, p.listed_as
