-- A person confirms that the accounts are gone that the last complete catalogue did not list. Writes core.accounts.
UPDATE core.accounts SET missed_at = coalesce(accounts.missed_at, w.complete_at), confirmed_by = ?
FROM core.closed_scans AS w
WHERE w.resource = 'accounts' AND accounts.removed_at IS NULL
  AND (accounts.missed_at IS NOT NULL OR accounts.seen_seq < w.began_seq)
