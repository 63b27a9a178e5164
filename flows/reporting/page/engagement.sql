-- name: gained
-- The same as the view engagement_by_day, but only for the covered days: the view compares all counts ever seen.
-- hash() makes one short key from three texts, so that a million items are sorted in a second.
WITH counted AS (
    SELECT hash(account_id, media_id, metric) AS item, account_id, media_id, metric, observed_at, value
    FROM media_metrics
    WHERE surface = 'posts' AND metric IN ('like_count', 'comments_count') AND value IS NOT NULL
      AND observed_at >= {since} AND {only}
),
before AS (
    SELECT hash(account_id, media_id, metric) AS item, max(observed_at) AS observed_at,
        arg_max(value, observed_at) AS value
    FROM media_metrics
    WHERE surface = 'posts' AND metric IN ('like_count', 'comments_count') AND value IS NOT NULL
      AND observed_at < {since} AND hash(account_id, media_id, metric) IN (SELECT item FROM counted)
    GROUP BY item
),
stepped AS (
    SELECT *, lag(value) OVER (PARTITION BY item ORDER BY observed_at) AS earlier
    FROM (FROM counted UNION ALL BY NAME FROM before)
),
gains AS (
    SELECT account_id, metric, observed_at, value - earlier AS gain
    FROM stepped WHERE account_id IS NOT NULL AND earlier IS NOT NULL
    UNION ALL
    SELECT s.account_id, s.metric, s.observed_at, s.value
    FROM stepped AS s JOIN media AS m USING (account_id, media_id)
    WHERE s.earlier IS NULL AND m.surface = 'posts' AND m.published_at >= {since} - INTERVAL 48 HOURS
      AND s.observed_at < m.published_at + INTERVAL 48 HOURS
)
SELECT account_id, (observed_at AT TIME ZONE 'UTC')::DATE AS day,
    (sum(gain) FILTER (metric = 'like_count'))::BIGINT AS likes,
    (sum(gain) FILTER (metric = 'comments_count'))::BIGINT AS comments
FROM gains GROUP BY ALL
