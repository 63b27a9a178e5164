-- name: causes
WITH recent AS (SELECT run_id, started_at FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 30),
undone AS (
    SELECT o.outcome, coalesce(o.error_code, '') AS error_code, o.account_id, o.surface, o.ended_at, o.correlation_id
    FROM run_outcomes AS o JOIN recent USING (run_id)
    WHERE o.outcome NOT IN ('complete', 'skipped', 'recent') AND ({only} OR o.resource = 'accounts')
      AND (o.surface IN {surfaces} OR o.resource = 'accounts')
)
SELECT outcome, error_code, count(*) AS scans, count(DISTINCT nullif(account_id, '')) AS accounts,
    min(ended_at) AS first_at, max(ended_at) AS last_at,
    arg_max(correlation_id, (ended_at, account_id, surface), 3) AS correlation_ids
FROM undone GROUP BY outcome, error_code ORDER BY scans DESC, outcome, error_code LIMIT 20
