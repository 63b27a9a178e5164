-- Writes core.media_counts: each count that differs from the one before; NULL if it is no longer sent.
INSERT INTO core.media_counts
SELECT account_id, surface, media_id, one.metric, one.value, received_at, run_seq
FROM (
    SELECT account_id, surface, media_id, received_at, run_seq, unnest([{metrics}]) AS one
    FROM listed
    WHERE is_changed
)
WHERE one IS NOT NULL
