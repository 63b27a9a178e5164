-- The three charts of first-look.ipynb as plain SQL, for any tool that reads DuckDB.

-- Likes by day: bars of likes over day; a second axis for posts.
-- The day of the snapshot is not over, so its posts are not counted yet. Nor are those of accounts that left: one that was
-- connected again under another id would have each of its posts twice.
SELECT day, sum(likes_gained)::BIGINT AS likes, sum(comments_gained)::BIGINT AS comments,
    (
        sum(posts_published) FILTER (
            day < (SELECT max(snapshot_at AT TIME ZONE 'UTC')::DATE FROM published)
            AND account_id IN (SELECT account_id FROM accounts WHERE removed_at IS NULL)
        )
    )::BIGINT AS posts
FROM engagement_by_day
WHERE day > (SELECT min(started_at AT TIME ZONE 'UTC')::DATE FROM runs WHERE kind <> 'totals')
GROUP BY day
ORDER BY day;

-- Best hours: a heat map of relative_likes, weekday (1 is Monday) by hour (UTC); 1 is an account's usual post.
SELECT weekday, hour, posts, round(relative_likes, 2) AS relative_likes
FROM best_hour
WHERE posts >= 3
ORDER BY weekday, hour;

-- Growth: lines of likes over days since publication, a line for each post published since the first sync.
SELECT m.ig_username, m.media_id, epoch(c.observed_at - m.published_at) / 86400 AS days, c.value AS likes
FROM media_metrics AS c
JOIN media AS m USING (account_id, surface, media_id)
WHERE c.surface = 'posts' AND c.metric = 'like_count' AND c.value IS NOT NULL
    AND m.published_at >= (SELECT min(started_at) FROM runs WHERE kind <> 'totals')
ORDER BY m.ig_username, m.media_id, days;
