-- Marks them. Writes core.media.
UPDATE core.media SET removed_at = missed_at, removal = 'removed', run_seq = ?, confirmed_by = NULL
WHERE confirmed_by IS NOT NULL AND NOT list_contains(?::VARCHAR[], account_id)
