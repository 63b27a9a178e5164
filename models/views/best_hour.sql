-- Best hour to post, over all accounts, including removed ones: for each hour of the week (UTC) the median of
-- relative_likes, so that accounts of different sizes are comparable. Hours with few posts are not reliable. An hour
-- without a post has no row.
-- key: weekday, hour
SELECT
    isodow(published_at AT TIME ZONE 'UTC') AS weekday,  -- 1 for Monday to 7 for Sunday, in UTC.
    hour(published_at AT TIME ZONE 'UTC') AS hour,  -- Hour of publication, 0 to 23, in UTC.
    count(*) AS posts,  -- Number of posts.
    count(DISTINCT account_id) AS accounts,  -- Number of accounts.
    median(relative_likes) AS relative_likes  -- Median of relative_likes; above 1 is better than usual.
FROM post_performance
WHERE relative_likes IS NOT NULL
GROUP BY weekday, hour
