-- Accounts whose access token must be renewed, since when, and how old their media are (the older of
-- posts and stories).
-- key: account_id
-- join: accounts by account_id
SELECT
    a.account_id,  -- The account's id.
    a.ig_username,  -- Its name on the social network.
    a.token_expired_since,  -- When a sync first saw the token expired, UTC.
    if(count(f.complete_at) = count(*), min(greatest(f.complete_at, f.recent_at)), NULL)
        AS media_as_of  -- The older of the last scans of posts and stories, UTC; NULL if one of them never had a full
                        -- scan. A surface that no run has scanned does not count.
FROM accounts AS a
LEFT JOIN freshness AS f ON f.account_id = a.account_id
WHERE a.status = 'token_expired' AND a.removed_at IS NULL
GROUP BY a.account_id, a.ig_username, a.token_expired_since
