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
    gh_account.ig_username,  -- The account's current name on the social network.
    {child_id} AS child_id,  -- The child's id, always text.
    {media_type} AS media_type,  -- Kind of media as the API names it.
    {media_url} AS media_url,  -- URL of the image or video as last received; a signature in it expires.
    gh_row.run_seq  -- The run that last changed the item of this child, as seq in runs; NULL if unknown.
    {inferred}
FROM ({elements}) AS gh_row
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
