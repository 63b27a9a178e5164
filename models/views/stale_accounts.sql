-- Accounts going stale, and why. token_expired, never_walked, not_walked: their posts were not walked to the end
-- within the 48 hours before this snapshot was made (two nights), so that nothing can be said of their posting.
-- stopped_posting: walked, with five posts or more, but silent for three times their usual gap, and a week at least.
SELECT
    c.account_id,  -- The account's id.
    c.ig_username,  -- Its name on the social network.
    CASE
        WHEN c.walked_at >= s.published_at - INTERVAL 48 HOURS
            THEN if(
                c.posts >= 5 AND c.days_since_last_post > greatest(3 * c.median_days_between_posts, 7),
                'stopped_posting',
                NULL
            )
        WHEN a.status = 'token_expired' THEN 'token_expired'
        WHEN c.walked_at IS NULL THEN 'never_walked'
        ELSE 'not_walked'
    END AS reason,  -- token_expired, never_walked, not_walked or stopped_posting.
    c.walked_at,  -- When the posts were last walked to the end; NULL when they never were.
    c.last_post_at,  -- When the newest known post was published.
    c.days_since_last_post,  -- From then to the snapshot.
    c.median_days_between_posts  -- The usual gap: the median of the last 20.
FROM posting_cadence AS c
JOIN accounts AS a USING (account_id)
CROSS JOIN published AS s
WHERE reason IS NOT NULL
