-- Every status an account has had, one row per period.
-- key, not unique: account_id, valid_from
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_lookup.ig_username,  -- The account's current name on the social network.
    gh_row.status,  -- active or token_expired; removed while the account was marked as removed.
    gh_row.valid_from,  -- When a sync first saw this status.
    gh_row.valid_to  -- When a sync first saw the next status; NULL for the current one.
FROM core.account_status_history AS gh_row
LEFT JOIN core.account_lookup AS gh_lookup ON gh_lookup.account_id = gh_row.account_id
