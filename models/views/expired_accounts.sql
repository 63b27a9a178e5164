-- Accounts whose access token must be renewed, since when, and how old their media are (the older of
-- posts and stories).
-- key: account_id
-- join: accounts by account_id
SELECT
    a.account_id,  -- The account's id.
    a.ig_username,  -- Its name on the social network.
    a.token_expired_since,  -- When a sync first saw the token expired, UTC.
    min(greatest(w.complete_at, w.recent_at)) AS media_as_of  -- The older of the last scans of posts and stories, UTC.
FROM accounts AS a
LEFT JOIN completed_scans AS w ON list_contains({surfaces}, w.surface) AND w.account_id = a.account_id
WHERE a.status = 'token_expired' AND a.removed_at IS NULL
GROUP BY ALL
