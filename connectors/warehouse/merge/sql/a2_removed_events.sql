-- The removals of confirmed items, but for those of the accounts that are kept. Writes core.events.
INSERT INTO core.events BY NAME
SELECT account_id, surface, media_id, 'removed' AS event, missed_at AS changed_at, ? AS run_seq
FROM core.media
WHERE confirmed_by IS NOT NULL AND NOT list_contains(?::VARCHAR[], account_id)
ORDER BY account_id, surface, media_id
