-- name: question
SELECT ig_username, like_count, comments_count, caption
FROM media SEMI JOIN (FROM accounts WHERE removed_at IS NULL) USING (account_id)
WHERE surface = 'posts' AND removed_at IS NULL
ORDER BY like_count DESC LIMIT 4
