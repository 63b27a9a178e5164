-- Every status an account has had, one row per period.
-- key, not unique: account_id, valid_from
-- join: accounts by account_id
SELECT
    account_id,  -- The account's id, a UUID in lower case.
    status,  -- active or token_expired; removed while the account was marked as removed.
    valid_from,  -- When a sync first saw this status.
    valid_to  -- When a sync first saw the next status; NULL for the current one.
FROM core.account_status_history
