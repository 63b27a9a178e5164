-- Counts of media items over time, one row for each change of a count.
-- key, not unique: account_id, surface, media_id, metric, observed_at
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
SELECT
    account_id,  -- The account's id, a UUID in lower case.
    surface,  -- Where the item was listed: posts or stories.
    media_id,  -- The item's id, always text.
    metric,  -- Name of the count: a column of media, such as like_count.
    value,  -- The count from observed_at on; NULL if the API stopped sending it.
    observed_at  -- When a sync first saw this value.
FROM core.media_metrics
