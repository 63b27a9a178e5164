-- Marks the accounts that a complete catalogue did not list. One that listed none decides nothing. Writes core.accounts.
UPDATE core.accounts SET
    missed_at = coalesce(accounts.missed_at, c.closed_at),
    confirmed_by = if(
        c.started_at >= accounts.missed_at + to_seconds({confirm_accounts_after}), c.run_seq, accounts.confirmed_by
    )
FROM closing AS c
WHERE c.resource = 'accounts' AND c.decides AND accounts.removed_at IS NULL AND accounts.seen_seq < c.began_seq
  AND EXISTS (FROM core.accounts AS listed WHERE listed.seen_seq >= c.began_seq)
