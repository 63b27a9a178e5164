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

-- name: last_ended
-- A run that is in progress or was killed has no end.
FROM runs WHERE ended_at IS NOT NULL ORDER BY seq DESC LIMIT 1

-- name: totals
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL) AS accounts,
    (SELECT count(*) FROM expired_accounts) AS expired,
    (SELECT count(*) FROM quarantine) AS quarantined,
    (SELECT max(snapshot_at) FROM published) AS published_at,
    (SELECT max(stale_after) FROM published) AS stale_after,
    (
        SELECT coalesce(histogram(m.surface), MAP {}) FROM core.media AS m JOIN accounts AS a USING (account_id)
        WHERE m.removed_at IS NULL AND a.removed_at IS NULL
    ) AS items
