-- Writes core.events.
INSERT INTO core.events BY NAME
SELECT account_id, surface, media_id, 'expired' AS event, closed_at AS changed_at, run_seq
FROM missed
WHERE is_expired AND decides
