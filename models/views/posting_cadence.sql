-- How often each account posts: number of posts in the days before this snapshot, and the usual number of days between
-- two posts. Posts removed since are included. Posts without a time of publication, or with one more than 24 hours after
-- the snapshot, are not. Posts published after scanned_at are not known yet. Accounts that left the catalogue are
-- excluded.
-- key: account_id
-- join: accounts by account_id
WITH post AS (
    SELECT
        m.account_id,
        m.published_at,
        (epoch(s.snapshot_at) - epoch(m.published_at)) / 86400 AS days_ago,
        (epoch(m.published_at) - epoch(lead(m.published_at) OVER newest_first)) / 86400 AS gap,
        row_number() OVER newest_first AS nth
    FROM media AS m
    CROSS JOIN published AS s
    WHERE m.surface = 'posts' AND m.published_at <= s.snapshot_at + INTERVAL 24 HOURS
    WINDOW newest_first AS (PARTITION BY m.account_id ORDER BY m.published_at DESC)
)
SELECT
    a.account_id,  -- The account's id.
    a.ig_username,  -- Its name on the social network.
    count(p.account_id) AS posts,  -- All known posts.
    count(*) FILTER (p.days_ago < 7) AS posts_7d,  -- Posts of the 7 days before the snapshot.
    count(*) FILTER (p.days_ago < 28) AS posts_28d,  -- Posts of the 28 days before the snapshot.
    count(*) FILTER (p.days_ago < 90) AS posts_90d,  -- Posts of the 90 days before the snapshot.
    count(*) FILTER (p.days_ago < 28) / 4 AS posts_per_week,  -- Mean of the last 28 days.
    median(p.gap) FILTER (p.nth <= 20) AS median_days_between_posts,  -- Median of the last 20 times between two posts;
                                                                       -- NULL with fewer than two posts.
    max(p.published_at) AS last_post_at,  -- When the newest post was published, UTC; NULL without a post.
    min(p.days_ago) AS days_since_last_post,  -- Days from last_post_at to the snapshot.
    greatest(w.complete_at, w.recent_at) AS scanned_at  -- When a scan of the posts was last completed, UTC; NULL if never.
FROM accounts AS a
LEFT JOIN post AS p ON p.account_id = a.account_id
LEFT JOIN completed_scans AS w ON w.resource = 'media' AND w.account_id = a.account_id AND w.surface = 'posts'
WHERE a.removed_at IS NULL
GROUP BY a.account_id, a.ig_username, w.complete_at, w.recent_at
