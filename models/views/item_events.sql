-- What happened to every item, one row for each event. Earlier ones than the history of the warehouse are not known.
-- key, not unique: account_id, surface, media_id, changed_at, event
-- join: media by account_id, surface, media_id
-- join: accounts by account_id
WITH gh_version AS (
    SELECT
        account_id, surface, media_id, valid_to, run_seq, columns, to_json(gh_item) AS old,
        lead(to_json(gh_item)) OVER (
            PARTITION BY account_id, surface, media_id ORDER BY valid_from, valid_to NULLS LAST
        ) AS new
    FROM media_history AS gh_item
),
gh_count AS (
    SELECT
        account_id, surface, media_id, observed_at, run_seq, metric, value,
        lag(value) OVER (PARTITION BY account_id, surface, media_id, metric ORDER BY observed_at, run_seq) AS old
    FROM (
        -- A page may list an item twice.
        SELECT
            account_id, surface, media_id, metric, observed_at, run_seq, arg_max_null(value, rowid) AS value
        FROM core.media_counts
        GROUP BY account_id, surface, media_id, metric, observed_at, run_seq
    )
),
gh_scan AS (
    SELECT account_id, surface, run_seq, started_at, ended_at,
        if(outcome = 'recent', 'recent', 'full') || strftime(ended_at AT TIME ZONE 'UTC', ' %Y-%m-%d %H:%M') AS scan
    FROM core.run_outcomes
    WHERE outcome IN ('complete', 'recent')
),
gh_removal AS (
    SELECT account_id, surface, media_id, changed_at, run_seq, event FROM core.events
    UNION ALL
    SELECT account_id, surface, media_id, missed_at, NULL, 'missed' FROM core.media
    WHERE missed_at IS NOT NULL AND removed_at IS NULL
),
gh_all AS (
    SELECT account_id, surface, media_id, first_seen_at AS changed_at, 'new' AS event, first_run_seq AS run_seq, NULL AS changes,
        NULL::VARCHAR[] AS scans
    FROM core.media
    UNION ALL
    SELECT account_id, surface, media_id, valid_to, 'changed', run_seq,
        to_json(map_from_entries([
            (gh_name, {'old': json_extract(old, gh_name), 'new': json_extract(new, gh_name)}) FOR gh_name IN columns
        ]))::VARCHAR,
        NULL
    FROM gh_version WHERE columns IS NOT NULL
    UNION ALL
    SELECT account_id, surface, media_id, observed_at, 'counted', run_seq,
        to_json(map_from_entries(list_sort(list(DISTINCT (metric, {'old': old, 'new': value})))))::VARCHAR, NULL
    FROM gh_count GROUP BY account_id, surface, media_id, observed_at, run_seq
    UNION ALL
    SELECT gh_row.account_id, gh_row.surface, gh_row.media_id, gh_row.changed_at, gh_row.event,
        coalesce(gh_row.run_seq, if(gh_first.started_at <= gh_row.changed_at, gh_first.run_seq, NULL)), NULL,
        CASE WHEN gh_row.event <> 'returned' THEN [
            gh_each FOR gh_each IN [
                if(gh_first.started_at <= gh_row.changed_at, gh_first.scan, NULL), nullif(gh_second.scan, gh_first.scan)
            ] IF gh_each IS NOT NULL
        ] END
    FROM gh_removal AS gh_row
    ASOF LEFT JOIN gh_scan AS gh_first
        ON gh_first.account_id = gh_row.account_id AND gh_first.surface = gh_row.surface
        AND gh_first.ended_at >= gh_row.changed_at
    LEFT JOIN gh_scan AS gh_second
        ON gh_second.account_id = gh_row.account_id AND gh_second.surface = gh_row.surface
        AND gh_second.run_seq = gh_row.run_seq
)
SELECT
    gh_all.account_id,  -- The account's id, a UUID in lower case.
    gh_all.surface,  -- Where the item was listed, such as posts or stories.
    gh_all.media_id,  -- The item's id, always text.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_all.changed_at,  -- When it was found; of missed, removed and expired items, when the first scan ended that did not list them.
    gh_all.event,  -- new, changed (content), counted (counts), missed (by the last scan, and not decided), removed, expired,
                   -- or returned (listed again after it was removed or expired).
    gh_all.changes,  -- Of changed and counted items, a JSON object: by column or count, its values old and new.
    gh_all.scans,  -- Of missed, removed and expired items, the scans that did not list them: recent or full, and their ends
                   -- (UTC), in order; without those of runs that are no longer listed.
    gh_all.run_seq,  -- The run that found it, as seq in runs; NULL if unknown.
    gh_run.run_id  -- Its id; NULL if it is unknown or no longer listed.
FROM gh_all
LEFT JOIN core.runs AS gh_run ON gh_run.seq = gh_all.run_seq
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_all.account_id
