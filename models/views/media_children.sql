-- Children of media items (such as the pictures of a carousel), one row each. These columns are followed by those
-- inferred from other fields of the children.
-- key: account_id, surface, media_id, position
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_row.position,  -- Position in the item's list, from 0.
    gh_lookup.ig_username,  -- The account's current name on the social network.
    gh_row.child_id,  -- The child's id, always text.
    gh_row.media_type,  -- Kind of media as the API names it.
    gh_row.media_url,  -- URL of the image or video as last received; a signature in it expires.
    gh_row.run_seq  -- The run that last wrote the children of this item, as seq in runs; NULL if unknown.
    {inferred}
FROM core.media_children AS gh_row
LEFT JOIN core.account_lookup AS gh_lookup ON gh_lookup.account_id = gh_row.account_id
