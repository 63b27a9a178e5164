-- Accounts whose posts are stale, or that have stopped posting, with the reason. An account has stopped posting if it
-- has at least five posts, but none for a week and for three times its usual gap, by posting_cadence.
-- key: account_id
-- join: accounts by account_id
SELECT
    c.account_id,  -- The account's id.
    c.ig_username,  -- Its name on the social network.
    CASE
        WHEN f.is_stale THEN if(c.scanned_at IS NULL, 'never_scanned', 'not_scanned')
        WHEN f.stale_at IS NULL AND coalesce(f.stale_for > s.stale_after, true) THEN 'token_expired'
        WHEN c.posts >= 5 AND c.days_since_last_post > greatest(3 * c.median_days_between_posts, 7)
            THEN 'stopped_posting'
    END AS reason,  -- never_scanned or not_scanned: stale, as in freshness; token_expired: the same, because the token must
                -- be renewed; stopped_posting.
    c.scanned_at,  -- When a scan of the posts was last completed, UTC; NULL if never.
    c.last_post_at,  -- When the newest known post was published, UTC.
    c.days_since_last_post,  -- Days from last_post_at to the snapshot.
    c.median_days_between_posts  -- The usual gap in days: the median of the last 20.
FROM posting_cadence AS c
JOIN freshness AS f ON f.account_id = c.account_id AND f.surface = 'posts'
CROSS JOIN published AS s
WHERE reason IS NOT NULL
