-- Every status an account has had, one row per period.
-- key, not unique: account_id, valid_from
-- join: accounts by account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_account.ig_username,  -- The account's current name on the social network.
    gh_row.value AS status,  -- active or token_expired; removed while the account was marked as removed.
    gh_row.valid_from,  -- When a sync first saw this status.
    gh_row.valid_to  -- When a sync first saw the next status; NULL for the current one.
FROM core.account_periods AS gh_row
LEFT JOIN core.accounts AS gh_account ON gh_account.account_id = gh_row.account_id
WHERE gh_row.attribute = 'status'
