-- Accounts, one row each, as the API last listed them.
-- key: account_id
SELECT
    account_id,  -- The account's id, a UUID in lower case.
    ig_username,  -- The account's name on the social network.
    public_id,  -- The account's short public id.
    status,  -- active, or token_expired: its access token must be renewed.
    CASE WHEN status = 'token_expired' THEN status_since END
        AS token_expired_since,  -- When a sync first saw the token expired; NULL if the status is not token_expired.
    first_seen_at,  -- When a sync first saw the account.
    last_seen_at,  -- When a sync last saw the account.
    removed_at,  -- When the first scan of the catalogue that did not list it ended; NULL if it is not marked as removed.
    run_seq,  -- The run that last listed it, or marked it as removed, as seq in runs; NULL if unknown.
    CASE WHEN removed_at IS NULL THEN missed_at END
        AS missing_since  -- When a complete scan of the catalogue first missed it, if its removal awaits confirmation.
FROM core.accounts
