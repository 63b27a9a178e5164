-- Changes of captions, one row each. The first caption of an item is not a change, nor is an empty text instead of NULL,
-- or another Unicode form of the same text. Removed items are included.
-- key, not unique: account_id, surface, media_id, edited_at
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
WITH versions AS (
    SELECT
        account_id,
        surface,
        media_id,
        ig_username,
        valid_from,
        caption,
        lag(caption) OVER earlier AS old_caption,
        lag(columns) OVER earlier AS columns
    FROM media_history
    WINDOW earlier AS (PARTITION BY account_id, surface, media_id ORDER BY valid_from, valid_to NULLS LAST)
)
SELECT
    account_id,  -- The account's id.
    surface,  -- Where the item was listed, such as posts or stories.
    media_id,  -- The item's id, always text.
    ig_username,  -- The account's current name on the social network.
    valid_from AS edited_at,  -- When a sync first saw the new caption, UTC.
    old_caption,  -- The caption before; NULL or empty if it had none.
    caption AS new_caption  -- The caption since; NULL or empty if it was removed.
FROM versions
WHERE list_contains(columns, 'caption')
