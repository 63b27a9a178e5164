-- Media items as last seen, one row each. Removed items are kept, with removed_at set. These columns are followed by
-- those inferred from other fields of the items.
-- key: account_id, surface, media_id
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_row.media_type,  -- Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.
    {kind} AS kind,  -- image, video, carousel or reel, from media_type and similar fields; NULL if they do not say it.
    gh_row.caption,  -- The caption as published.
    gh_row.permalink,  -- URL of the item on the social network.
    gh_row.media_url,  -- URL of the image or video as last received; a signature in it expires.
    gh_row.published_at,  -- When the item was published.
    gh_row.like_count,  -- Likes when last seen; NULL if the API sent none, for example because the account hides them.
    gh_row.comments_count,  -- Comments when last seen; NULL if the API sent none.
    gh_row.first_seen_at,  -- When a sync first saw it.
    gh_row.last_seen_at,  -- When a scan last saw it.
    gh_row.changed_at,  -- When its content or a count last changed.
    gh_row.content_changed_at,  -- When its content, without counts, last changed.
    gh_row.removed_at,  -- When the first scan that did not list it ended; NULL if it is not marked as removed.
    gh_row.removal,  -- removed, or expired (a story that was at least 24 hours old); NULL if removed_at is NULL.
    gh_row.run_seq  -- The run that last changed this row, apart from addresses and ignored fields, as seq in runs; NULL if unknown.
    {inferred}
FROM core.media AS gh_row
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
