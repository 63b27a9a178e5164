-- name: unresolved
-- Runs that no later run has made up for. A complete or partial run does so if it is a sync of everything, or if it has
-- the same kind and selection.
SELECT r.* FROM runs AS r
WHERE r.state IN ('failed', 'interrupted') AND NOT EXISTS (
    FROM runs AS l
    WHERE l.seq > r.seq AND l.state IN ('complete', 'partial') AND (
        (l.kind = 'sync' AND l.selection IS NULL)
        OR (l.kind = r.kind AND l.selection IS NOT DISTINCT FROM r.selection)
    )
)
QUALIFY row_number() OVER (PARTITION BY r.kind, r.selection ORDER BY r.seq DESC) = 1
ORDER BY r.seq DESC

-- name: last_tried
-- The outcome of each partition in the last run that scanned it, of any kind.
SELECT o.account_id, o.surface, unnest(arg_max({
    'outcome': o.outcome, 'error_code': o.error_code, 'detail': o.detail, 'ended_at': o.ended_at,
    'correlation_id': o.correlation_id, 'resume_after': o.resume_after
}, r.seq))
FROM run_outcomes AS o JOIN runs AS r USING (run_id) LEFT JOIN accounts AS a USING (account_id)
WHERE a.removed_at IS NULL GROUP BY o.resource, o.account_id, o.surface

-- name: totals
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL) AS accounts,
    (SELECT count(*) FROM expired_accounts) AS expired,
    (SELECT count(*) FROM quarantine) AS quarantined,
    (SELECT max(snapshot_at) FROM published) AS published_at,
    (SELECT max(stale_after) FROM published) AS stale_after

-- name: items
SELECT m.surface, count(*) AS items FROM media AS m JOIN accounts AS a USING (account_id)
WHERE m.removed_at IS NULL AND a.removed_at IS NULL
GROUP BY m.surface
