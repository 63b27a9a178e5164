-- Hashtags in the captions of posts, in lower case, over all accounts. A tag that a caption repeats counts once, in any
-- Unicode form. A tag does not begin within a word or after &, except after another tag: a#b and &#39; are none. Removed
-- posts and accounts are included. Relative likes are those of post_performance.
-- key: hashtag
WITH found AS (
    SELECT
        m.account_id,
        m.media_id,
        m.published_at,
        regexp_extract_all(
            regexp_replace(replace(lower(m.caption), chr(8419), ' '), '[\x{FE00}-\x{FE0F}]', '', 'g'),
            '(?:^|[^\p{L}\p{M}\p{N}_&])((?:#[\p{L}\p{M}\p{N}_]+)+)', 1
        ) AS tags
    FROM media AS m
    WHERE m.surface = 'posts'
),
tagged AS (
    SELECT
        f.account_id,
        f.media_id,
        f.published_at,
        unnest(list_distinct(string_split(nfc_normalize(array_to_string(f.tags, '')), '#')[2:])) AS hashtag
    FROM found AS f
)
SELECT
    t.hashtag,  -- The tag without its number sign.
    count(*) AS posts,  -- Number of posts with it.
    count(DISTINCT t.account_id) AS accounts,  -- Number of accounts with such posts.
    min(t.published_at) AS first_used_at,  -- When the first such post was published, UTC.
    max(t.published_at) FILTER (t.published_at <= (SELECT max(snapshot_at) + INTERVAL 24 HOURS FROM published))
        AS last_used_at,  -- When the last such post was published, UTC; times more than 24 hours after the snapshot are
                          -- ignored.
    median(p.relative_likes) AS relative_likes  -- Median of relative_likes of these posts; NULL if none has it.
FROM tagged AS t
LEFT JOIN post_performance AS p USING (account_id, media_id)
GROUP BY t.hashtag
