-- Likes of each post relative to its account: 2 is twice the likes of the account's median post. Excluded are posts last
-- seen within 7 days of publication, whose likes were still growing, and posts with hidden likes or without a time of
-- publication. Removed posts and accounts are included, with the likes last seen.
-- key: account_id, media_id
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
WITH ripe AS (
    SELECT
        account_id,
        surface,
        ig_username,
        media_id,
        published_at,
        like_count,
        median(like_count) OVER (PARTITION BY account_id) AS usual
    FROM media
    WHERE surface = 'posts' AND like_count IS NOT NULL AND last_seen_at >= published_at + INTERVAL 168 HOURS
)
SELECT
    account_id,  -- The account's id.
    ig_username,  -- Its name on the social network.
    media_id,  -- The post's id, always text.
    published_at,  -- When it was published, UTC.
    like_count,  -- Likes when last seen.
    usual AS median_likes,  -- The median of the account's posts in this view.
    like_count / nullif(usual, 0) AS relative_likes,  -- like_count / median_likes; NULL when that is 0.
    surface  -- posts: an item of another surface may have the same id.
FROM ripe
