-- Accounts going stale, and why. never_scanned, not_scanned: their posts are stale, as freshness defines it.
-- token_expired: they are as old, and cannot be scanned until the token is renewed. Of these three no more can be said.
-- stopped_posting: scanned, with five posts or more, but silent for three times their usual gap, and a week at least.
SELECT
    c.account_id,  -- The account's id.
    c.ig_username,  -- Its name on the social network.
    CASE
        WHEN f.is_stale THEN if(c.scanned_at IS NULL, 'never_scanned', 'not_scanned')
        WHEN f.stale_at IS NULL AND coalesce(f.stale_for > to_seconds(s.stale_after), true) THEN 'token_expired'
        WHEN c.posts >= 5 AND c.days_since_last_post > greatest(3 * c.median_days_between_posts, 7)
            THEN 'stopped_posting'
    END AS reason,  -- token_expired, never_scanned, not_scanned or stopped_posting.
    c.scanned_at,  -- When a scan of the posts was last closed; NULL when none was.
    c.last_post_at,  -- When the newest known post was published.
    c.days_since_last_post,  -- From then to the snapshot.
    c.median_days_between_posts  -- The usual gap: the median of the last 20.
FROM posting_cadence AS c
JOIN freshness AS f ON f.account_id = c.account_id AND f.surface = 'posts'
CROSS JOIN published AS s
WHERE reason IS NOT NULL
