-- Marks them. Writes core.accounts.
UPDATE core.accounts SET removed_at = missed_at, removal = 'removed', run_seq = ?, confirmed_by = NULL
WHERE confirmed_by IS NOT NULL
