-- Times in which an account's token was expired, one row each. Its media were not scanned meanwhile, unless a setting
-- allows it. The time ends when the account is active again or removed.
-- key, not unique: account_id, expired_at
-- join: accounts by account_id
SELECT
    h.account_id,  -- The account's id.
    h.ig_username,  -- Its current name on the social network.
    h.valid_from AS expired_at,  -- When a sync first saw the expired token, UTC.
    h.valid_to AS ended_at,  -- When a sync first saw another status, UTC; NULL while the token is expired.
    (
        epoch(coalesce(h.valid_to, p.snapshot_at)) - epoch(h.valid_from)
    ) / 86400 AS days  -- Length in days, until the snapshot if it has not ended.
FROM account_status_history AS h
CROSS JOIN published AS p
WHERE h.status = 'token_expired'
