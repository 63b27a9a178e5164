-- The outcomes of partitions in runs, one row each. All outcomes of the last 30 runs and of the last 7 days are kept.
-- In older runs, a complete, recent or skipped outcome is deleted if it equals the one before in the same month (UTC), of
-- runs with --due and backfills in the same day; the last one of each partition is kept. The id of an account that was
-- forgotten is a salted hash.
-- key: run_id, resource, account_id, surface
-- join: runs by run_id
-- join, not all rows: accounts by account_id
SELECT
    run_id,  -- The run.
    resource,  -- What was scanned: accounts (the catalogue) or media.
    account_id,  -- The scanned account; empty for the catalogue.
    surface,  -- The feed, such as posts or stories; empty for the catalogue.
    outcome,  -- complete, recent, skipped, deferred, denied, not_found or failed.
    pages,  -- Pages of the partition that this run landed.
    items,  -- Records of the partition that this run landed.
    error_code,  -- The API's error code, or gramhouse's own if it received none.
    http_status,  -- HTTP status of the last response.
    correlation_id,  -- X-Correlation-ID of the last response, for the API's support.
    resume_after,  -- No request is sent before this; NULL if there is nothing to wait for.
    detail,  -- Explanation, one line.
    started_at,  -- When the run began this partition.
    ended_at  -- When its outcome was known.
FROM core.run_outcomes
