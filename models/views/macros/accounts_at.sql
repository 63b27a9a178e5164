-- The accounts that were listed at a time, with their names and status of then, one row each:
-- FROM accounts_at('2026-11-23 08:00:00+00'). A date is its midnight. USE an attached snapshot first.
-- key: account_id
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    coalesce(gh_name.value, gh_row.ig_username) AS ig_username,  -- The account's name on the social network.
    gh_row.public_id,  -- The account's short public id, as last listed.
    gh_status.value AS status,  -- active, or token_expired.
    CASE WHEN gh_status.value = 'token_expired' THEN gh_status.valid_from END
        AS token_expired_since,  -- When a sync first saw the token expired; NULL if the status is not token_expired.
    gh_row.first_seen_at  -- When a sync first saw the account.
FROM core.accounts AS gh_row
JOIN core.account_periods AS gh_status
    ON gh_status.account_id = gh_row.account_id AND gh_status.attribute = 'status'
    AND gh_status.valid_from <= t::TIMESTAMPTZ AND coalesce(gh_status.valid_to > t::TIMESTAMPTZ, true)
LEFT JOIN (
    FROM core.account_periods
    WHERE attribute = 'ig_username' AND valid_from <= t::TIMESTAMPTZ AND coalesce(valid_to > t::TIMESTAMPTZ, true)
) AS gh_name ON gh_name.account_id = gh_row.account_id
WHERE gh_status.value <> 'removed'
