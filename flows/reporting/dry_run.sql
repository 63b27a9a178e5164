-- name: scans
SELECT
    a.account_id, w.complete_at, w.recent_at, w.pages, w.items, w.item_order, w.full_share,
    coalesce(w.needs_full, false) AS needs_full, coalesce(m.posts, 0) AS posts, coalesce(m.in_window, 0) AS in_window
FROM accounts AS a
LEFT JOIN completed_scans AS w ON w.resource = 'media' AND w.account_id = a.account_id AND w.surface = 'posts'
LEFT JOIN (
    SELECT account_id, count(*) AS posts, count(*) FILTER (published_at >= $1) AS in_window
    FROM media WHERE surface = 'posts' AND removed_at IS NULL GROUP BY account_id
) AS m ON m.account_id = a.account_id
WHERE a.removed_at IS NULL AND (a.status <> 'token_expired' OR $2)
