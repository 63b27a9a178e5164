-- name: contents
-- What the snapshot holds: accounts, items that are no longer listed, syncs, and listed items by surface.
SELECT
    count(DISTINCT account_id) FILTER (a.removed_at IS NULL) AS accounts, count(media_id) FILTER (NOT is_listed) AS gone,
    (SELECT count(*) FROM runs WHERE state IN ('complete', 'partial')) AS runs,
    histogram(surface) FILTER (is_listed) AS present
FROM accounts AS a
LEFT JOIN (SELECT account_id, surface, media_id, removed_at FROM media) AS m USING (account_id),
    LATERAL (SELECT a.removed_at IS NULL AND m.removed_at IS NULL AND media_id IS NOT NULL AS is_listed)

-- name: question
SELECT ig_username, like_count, comments_count, caption
FROM media SEMI JOIN (FROM accounts WHERE removed_at IS NULL) USING (account_id)
WHERE surface = 'posts' AND removed_at IS NULL
ORDER BY like_count DESC LIMIT 4
