-- Counts of media items over time, one row for each change of a count. Counts of children have no history: their
-- tables have the last ones.
-- key, not unique: account_id, surface, media_id, metric, observed_at
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_row.metric,  -- Name of the count: a column of media, such as like_count.
    gh_row.value,  -- The count from observed_at on; NULL if the API stopped sending it, or a mapped column has it.
    gh_row.observed_at,  -- When a sync first saw this value.
    gh_row.run_seq  -- The run that first saw this value, as seq in runs; NULL if unknown.
FROM core.media_counts AS gh_row
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
