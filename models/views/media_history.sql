-- Every version of every item's content (counts aside), the present one included: valid_to is NULL there, and its
-- payload is the item's present one.
SELECT
    account_id,  -- The account's id.
    surface,  -- posts or stories.
    media_id,  -- The item's own id.
    valid_from,  -- When a sync first saw this version.
    valid_to,  -- When a sync first saw the next one; NULL for the present version.
    payload  -- The whole item as it was last written in this version, JSON.
FROM media_superseded
UNION ALL
SELECT account_id, surface, media_id, content_changed_at, NULL, payload
FROM media
