-- Every version of every item's content (counts aside), the present one included: valid_to is NULL there, and its
-- payload is the item's present one.
SELECT account_id, surface, media_id, valid_from, valid_to, payload
FROM media_superseded
UNION ALL
SELECT account_id, surface, media_id, content_changed_at, NULL, payload
FROM media
