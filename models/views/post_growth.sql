-- Each count of each post over time. Columns named value are counts, columns named gained are differences of counts. A
-- count applies from the scan that saw it until a scan sees another one. A count that vanished (hidden likes) keeps its
-- last value. Removed posts and accounts are included, posts that never had a count are not. Counts are as of the post's
-- last_seen_at in media: with incremental scans, only full scans see old posts. A post that leaves their window may have
-- no value_24h or value_7d until the next full scan.
-- key: account_id, media_id, metric
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
WITH grown AS (
    SELECT
        c.account_id,
        c.media_id,
        c.metric,
        m.ig_username,
        m.published_at,
        m.last_seen_at,
        m.surface,
        min(c.observed_at) FILTER (c.value IS NOT NULL) AS first_observed_at,
        max(c.observed_at) FILTER (c.value IS NOT NULL) AS latest_observed_at,
        if(arg_max_null(c.value, c.observed_at) IS NULL, max(c.observed_at), NULL) AS vanished_at,
        arg_min(c.value, c.observed_at) AS first_value,
        arg_max(c.value, c.observed_at) AS latest_value,
        arg_max_null(c.value, c.observed_at) FILTER (c.observed_at <= m.published_at + INTERVAL 24 HOURS) AS by_24h,
        arg_max_null(c.value, c.observed_at) FILTER (c.observed_at <= m.published_at + INTERVAL 168 HOURS) AS by_7d
    FROM media_metrics AS c
    JOIN media AS m USING (account_id, surface, media_id)
    WHERE c.surface = 'posts'
    GROUP BY c.account_id, c.media_id, c.metric, m.ig_username, m.published_at, m.last_seen_at, m.surface
    HAVING count(c.value) > 0
)
SELECT
    g.account_id,  -- The account's id.
    g.ig_username,  -- Its name on the social network.
    g.media_id,  -- The post's id, always text.
    g.published_at,  -- When it was published, UTC.
    g.metric,  -- What is counted: the name of a column of media, such as like_count.
    g.first_value,  -- The first count seen.
    g.first_observed_at,  -- When that was first seen, UTC.
    g.latest_value,  -- The last count seen.
    g.latest_observed_at,  -- When that was first seen, UTC.
    g.vanished_at,  -- When a scan first saw the post without this count, UTC; NULL while it has one.
    TRY_CAST(g.latest_value::HUGEINT - g.first_value AS BIGINT)
        AS gained,  -- From the first count to the last; below zero when it fell.
    (g.latest_value::DOUBLE - g.first_value) * 86400 / nullif(
        epoch(coalesce(g.vanished_at, g.last_seen_at)) - epoch(g.first_observed_at), 0
    ) AS gained_per_day,  -- gained per day of observation; NULL or 0 when seen only once.
    CASE
        WHEN g.last_seen_at >= g.published_at + INTERVAL 24 HOURS THEN g.by_24h
    END AS value_24h,  -- The count 24 hours after publication; NULL unless scans saw it before and after.
    CASE
        WHEN g.last_seen_at >= g.published_at + INTERVAL 168 HOURS THEN g.by_7d
    END AS value_7d,  -- The count 7 days after publication; NULL unless scans saw it before and after.
    g.surface  -- posts: an item of another surface may have the same id.
FROM grown AS g
