-- Likes and comments that each account's posts gained, by the day (UTC) on which a scan saw them: a nightly scan sees
-- mostly the day before. Withdrawn likes are subtracted; growth while a count was hidden is counted on the day it is
-- visible again. The first count of a post is a gain only within 48 hours of its publication. Removed posts and accounts
-- are included. A time of publication more than 24 hours after the snapshot is ignored. A day without changes has no
-- row. With incremental scans, gains of posts older than the lookback window fall on the day of their next full scan.
-- key: account_id, day
-- join: accounts by account_id
WITH post AS (
    SELECT
        m.account_id,
        m.media_id,
        if(m.published_at <= s.snapshot_at + INTERVAL 24 HOURS, m.published_at, NULL) AS published_at
    FROM media AS m
    CROSS JOIN published AS s
    WHERE m.surface = 'posts'
),
counted AS (
    SELECT
        c.account_id,
        (c.observed_at AT TIME ZONE 'UTC')::DATE AS day,
        c.metric,
        c.value::HUGEINT - coalesce(
            lag(c.value) OVER (PARTITION BY c.account_id, c.media_id, c.metric ORDER BY c.observed_at),
            CASE WHEN c.observed_at < m.published_at + INTERVAL 48 HOURS THEN 0 END
        ) AS gain
    FROM media_metrics AS c
    JOIN post AS m USING (account_id, media_id)
    WHERE c.surface = 'posts' AND c.metric IN ('like_count', 'comments_count') AND c.value IS NOT NULL
),
happened AS (
    SELECT account_id, day, metric, gain
    FROM counted
    WHERE gain IS NOT NULL
    UNION ALL
    SELECT account_id, (published_at AT TIME ZONE 'UTC')::DATE, 'post', 1
    FROM post
    WHERE published_at IS NOT NULL
)
SELECT
    h.account_id,  -- The account's id.
    a.ig_username,  -- Its name on the social network.
    h.day,  -- The day, in UTC.
    TRY_CAST(sum(h.gain) FILTER (h.metric = 'like_count') AS BIGINT)
        AS likes_gained,  -- NULL when no change was seen.
    TRY_CAST(sum(h.gain) FILTER (h.metric = 'comments_count') AS BIGINT)
        AS comments_gained,  -- NULL when no change was seen.
    count(*) FILTER (h.metric = 'post') AS posts_published  -- Posts published on this day, including those removed since.
FROM happened AS h
LEFT JOIN accounts AS a USING (account_id)
GROUP BY h.account_id, a.ig_username, h.day
