-- Records that could not become rows, one row each, with the response that first contained them.
-- join, not all rows: runs by run_id
-- join, not all rows: accounts by account_id
SELECT
    reason,  -- Why the record could not become a row.
    resource,  -- accounts or media.
    account_id,  -- The account whose page contained it; empty for the catalogue.
    surface,  -- The feed, such as posts or stories; empty for the catalogue.
    page,  -- Page of the scan, from 1.
    position,  -- Position in the page, from 0; NULL if the whole page was rejected.
    payload,  -- The record as the API sent it; in one that is not JSON, \xNN is a byte.
    run_id,  -- The run that first received it.
    correlation_id,  -- X-Correlation-ID of the response that first contained it.
    seen_at,  -- When it was first received.
    last_seen_at  -- When it was last received.
FROM core.quarantine
