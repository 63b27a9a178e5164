-- Best hour to post, over all accounts: for each hour of the week (UTC) the median of relative_likes, so that accounts
-- of many followers do not drown the others. Look at posts first: few of them say little. An hour
-- without a post has no row.
SELECT
    isodow(published_at AT TIME ZONE 'UTC') AS weekday,  -- 1 for Monday to 7 for Sunday, in UTC.
    hour(published_at AT TIME ZONE 'UTC') AS hour,  -- Hour of publication, 0 to 23, in UTC.
    count(*) AS posts,  -- Posts behind it.
    count(DISTINCT account_id) AS accounts,  -- Accounts behind it.
    median(relative_likes) AS relative_likes  -- Their median; above 1 is better than usual.
FROM relative_likes
WHERE relative_likes IS NOT NULL
GROUP BY weekday, hour
