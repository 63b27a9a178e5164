-- Accounts whose access token must be renewed, since when, and how old their media are (the older of
-- posts and stories).
SELECT
    a.account_id,
    a.ig_username,
    a.token_expired_since,
    min(w.complete_at) AS media_as_of
FROM accounts AS a
LEFT JOIN walks AS w ON w.resource = 'media' AND w.account_id = a.account_id
WHERE a.status = 'token_expired' AND a.removed_at IS NULL
GROUP BY ALL
