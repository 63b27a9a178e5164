-- Best hour, and best day of the week, to post for each account (UTC). A row is either for an hour, over the whole week,
-- with weekday NULL, or for a weekday, over all hours, with hour NULL. Rows with few posts are not reliable.
-- key: account_id, weekday or NULL, hour or NULL
-- join: accounts by account_id
SELECT
    account_id,  -- The account's id.
    ig_username,  -- Its name on the social network.
    isodow(published_at AT TIME ZONE 'UTC') AS weekday,  -- 1 for Monday to 7 for Sunday, in UTC; NULL: the whole week.
    hour(published_at AT TIME ZONE 'UTC') AS hour,  -- Hour of publication, 0 to 23, in UTC; NULL: all hours.
    count(*) AS posts,  -- Number of posts.
    median(like_count) AS median_likes,  -- Their median likes.
    median(relative_likes) AS relative_likes  -- Median of relative_likes: above 1 is better than usual.
FROM post_performance
WHERE relative_likes IS NOT NULL
GROUP BY GROUPING SETS ((account_id, ig_username, weekday), (account_id, ig_username, hour))
