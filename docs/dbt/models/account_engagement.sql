-- The posts of each account that are not removed: their number, likes and comments.
SELECT
    account_id,
    any_value(ig_username) AS ig_username,
    count(*) AS posts,
    sum(like_count)::BIGINT AS likes,
    sum(comments_count)::BIGINT AS comments,
    max(published_at) AS last_post_at
FROM {{ ref('posts') }}
GROUP BY account_id
