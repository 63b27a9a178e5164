-- Every version of the content of every item, one row each; valid_to is NULL for the current version. Counts
-- are in media_metrics. Addresses in other fields are no content: only the current version has them. These columns are
-- followed by those inferred from other fields of content.
-- key, not unique: account_id, surface, media_id, valid_from
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_row.valid_from,  -- When a sync first saw this version.
    gh_row.valid_to,  -- When a sync first saw the next version; NULL for the current one.
    gh_row.columns,  -- The columns whose content differs in the next version; NULL for the current one.
    gh_row.media_type,  -- Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.
    gh_row.caption,  -- The caption as published.
    gh_row.permalink,  -- URL of the item on the social network.
    gh_row.published_at,  -- When the item was published.
    gh_row.run_seq  -- The run that wrote this row, as seq in runs; NULL if unknown. For an earlier version, the run
                    -- that first saw the next one; for the current one, the run that last changed the row in media.
    {inferred}
FROM media_superseded AS gh_row
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
UNION ALL
SELECT
    gh_row.account_id,
    gh_row.surface,
    gh_row.media_id,
    gh_account.ig_username,
    gh_row.content_changed_at,
    NULL,
    NULL,
    gh_row.media_type,
    gh_row.caption,
    gh_row.permalink,
    gh_row.published_at,
    gh_row.run_seq
    {inferred}
FROM {current} AS gh_row
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
