-- What each run found of accounts, one row for each change.
-- key, not unique: account_id, changed_at, change
-- join: accounts by account_id
WITH gh_period AS (
    SELECT
        account_id,
        attribute,
        value,
        valid_from AS changed_at,
        run_seq,
        lag(value) OVER so_far AS before,
        coalesce(
            last_value(nullif(value, 'removed') IGNORE NULLS) OVER (so_far ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            'active'
        ) AS status_before
    FROM core.account_periods
    WINDOW so_far AS (PARTITION BY account_id, attribute ORDER BY seq, valid_from)
),
gh_row AS (
    SELECT
        account_id,
        changed_at,
        run_seq,
        unnest([
            CASE WHEN before IS NULL THEN 'new' WHEN before = 'removed' THEN 'returned' END,
            CASE WHEN value = 'removed' OR value <> status_before THEN value END
        ]) AS change,
        NULL AS old_ig_username,
        NULL AS new_ig_username
    FROM gh_period
    WHERE attribute = 'status'
    UNION ALL
    SELECT account_id, changed_at, run_seq, 'renamed', before, value
    FROM gh_period
    WHERE attribute = 'ig_username' AND before IS NOT NULL
)
SELECT
    gh_row.run_seq,  -- The run, as seq in runs; NULL if unknown.
    gh_run.run_id,  -- Its id; NULL if it is unknown or no longer listed.
    gh_row.changed_at,  -- When it was found; for removed accounts, removed_at of that removal.
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_row.change,  -- new, renamed, token_expired, active (again), removed, or returned (listed again after it was removed).
    gh_row.old_ig_username,  -- The earlier name of a renamed account; otherwise NULL.
    gh_row.new_ig_username  -- The new name of a renamed account; otherwise NULL.
FROM gh_row
LEFT JOIN core.runs AS gh_run ON gh_run.seq = gh_row.run_seq
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
WHERE gh_row.change IS NOT NULL
