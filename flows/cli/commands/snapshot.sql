-- name: accounts
SELECT
    a.ig_username, a.status, a.token_expired_since, a.missing_since,
    {counts},
    (
        SELECT if(count(f.complete_at) = count(*), min(greatest(f.complete_at, f.recent_at)), NULL)
        FROM freshness AS f WHERE f.account_id = a.account_id
    ) AS media_as_of,
    (SELECT min(due_at) FROM due_scans AS d WHERE d.account_id = a.account_id) AS due_at,
    a.account_id
FROM accounts AS a
LEFT JOIN core.media AS m ON m.account_id = a.account_id AND m.removed_at IS NULL
WHERE a.removed_at IS NULL AND (NOT ? OR a.status = 'token_expired')
GROUP BY ALL ORDER BY a.token_expired_since, a.ig_username

-- name: quarantined
SELECT q.*, a.ig_username
FROM quarantine AS q
LEFT JOIN accounts AS a USING (account_id)
ORDER BY q.seen_at DESC, q.account_id, q.surface, q.page, q.position
LIMIT ? -- NULL: all.

-- name: reasons
SELECT reason, count(*) AS records FROM quarantine GROUP BY ALL ORDER BY records DESC, reason
