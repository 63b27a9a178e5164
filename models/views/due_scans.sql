-- When the posts and stories of each listed account are due, as of published.snapshot_at; freshness shows it beside their
-- last scans.
-- key: account_id, surface
-- join: accounts by account_id
SELECT
    account_id,  -- The account's id.
    surface,  -- The feed, such as posts or stories.
    due_at,  -- When `gramhouse sync --due` scans it again; NULL while the token is expired.
    due_reason  -- Why then: rate (as often as it has something new), goal (GRAMHOUSE_FRESH_WITHIN is over), quiet (no
                -- stories lately: once a day), first (never scanned), retry (it failed, or was deferred, denied or not
                -- found), token_expired.
FROM core.due_scans
