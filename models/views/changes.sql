-- What each run found of items, one row for each item, run and kind of change.
-- key, not unique: account_id, surface, media_id, run_seq or NULL, change
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
WITH gh_all AS (
    SELECT account_id, surface, media_id, first_run_seq AS run_seq, first_seen_at AS changed_at, 'new' AS change,
        NULL::VARCHAR[] AS columns
    FROM core.media
    UNION ALL
    SELECT account_id, surface, media_id, run_seq, changed_at, event, NULL FROM core.events
    UNION ALL
    SELECT account_id, surface, media_id, run_seq, valid_to, 'changed', columns FROM media_superseded
    UNION ALL
    SELECT account_id, surface, media_id, run_seq, observed_at, 'counted', NULL FROM core.media_counts
),
gh_row AS (
    SELECT account_id, surface, media_id, run_seq, change, max(changed_at) AS changed_at, flatten(list(columns)) AS columns
    FROM gh_all
    GROUP BY account_id, surface, media_id, run_seq, change, if(run_seq IS NULL, changed_at, NULL)
    QUALIFY change <> 'counted'
        OR count(*) OVER (PARTITION BY account_id, surface, media_id, run_seq, if(run_seq IS NULL, changed_at, NULL)) = 1
)
SELECT
    gh_row.run_seq,  -- The run, as seq in runs; NULL if unknown.
    gh_run.run_id,  -- Its id; NULL if it is unknown or no longer listed.
    gh_row.changed_at,  -- When it was found; for removed and expired items, removed_at of that removal.
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_row.change,  -- new, changed (its content), counted (only its counts changed), removed, expired, or returned (listed
                    -- again after it was removed or expired).
    CASE WHEN gh_row.change = 'changed' THEN list_sort(list_distinct(gh_row.columns)) END
        AS columns  -- For changed items, the columns whose content changed; empty if only hidden columns or fields
                    -- without a column changed.
FROM gh_row
LEFT JOIN core.runs AS gh_run ON gh_run.seq = gh_row.run_seq
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
