-- Earlier versions of the content of items, one row each; media_history also has the current versions. These columns
-- are followed by those inferred from other fields of content.
-- key, not unique: account_id, surface, media_id, valid_from
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_row.valid_from,  -- When a sync first saw this version.
    gh_row.valid_to,  -- When a sync first saw the next version.
    list_filter(
        list_transform(gh_row.changed, lambda one: if(one[1] = '/', gh_column.names[one], one)),
        lambda one: one IS NOT NULL
    ) AS columns,  -- The columns whose content differs in the next version; empty if only hidden columns or fields
                   -- without a column do.
    {media_type} AS media_type,  -- Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.
    {caption} AS caption,  -- The caption as published.
    {permalink} AS permalink,  -- URL of the item on the social network.
    {published_at} AS published_at,  -- When the item was published.
    gh_row.run_seq  -- The run that first saw the next version, as seq in runs; NULL if unknown.
    {inferred}
FROM (SELECT * REPLACE (json_extract_string(content, {paths}) AS content) FROM core.media_versions) AS gh_row
CROSS JOIN (
    SELECT map_from_entries(list((path, column_name))) AS names
    FROM core.fields
    WHERE resource = 'media' AND column_name IS NOT NULL
) AS gh_column
