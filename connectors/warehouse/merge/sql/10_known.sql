-- The items of the batch whose bytes are stored, so that they need not be read. Writes nothing.
SELECT a.n, m.rowid AS row, m.missed_at IS NOT NULL AS is_missed, m.removed_at IS NOT NULL AS is_removed
FROM arrived AS a
JOIN core.media AS m
    ON m.account_id = a.account_id AND m.surface = a.surface AND m.payload_hash = a.payload_hash
ORDER BY a.n
