-- Accounts, one row each, as the API last listed them.
-- key: account_id
SELECT
    gh_account.account_id,  -- The account's id, a UUID in lower case.
    gh_account.ig_username,  -- The account's name on the social network.
    gh_account.public_id,  -- The account's short public id.
    gh_account.status,  -- active, or token_expired: its access token must be renewed.
    CASE WHEN gh_account.status = 'token_expired' THEN gh_account.status_since END
        AS token_expired_since,  -- When a sync first saw the token expired; NULL if the status is not token_expired.
    gh_account.first_seen_at,  -- When a sync first saw the account.
    gh_account.last_seen_at,  -- When a sync last saw the account.
    gh_account.removed_at,  -- When the first scan of the catalogue that did not list it ended; NULL if it is not marked
                            -- as removed.
    gh_account.run_seq,  -- The run that last listed it, or marked it as removed, as seq in runs; NULL if unknown.
    gh_lookup.missing_since  -- When a complete scan of the catalogue first missed it, if its removal awaits
                             -- confirmation.
FROM core.accounts AS gh_account
LEFT JOIN core.account_lookup AS gh_lookup ON gh_lookup.account_id = gh_account.account_id
