-- name: quarantined
-- The items in quarantine, in the order in which they were received, as rows of the raw store. Writes nothing.
SELECT
    row_number() OVER (ORDER BY q.seen_at, q.page, q.position) - 1 AS landed, q.position, q.account_id, q.surface,
    q.seen_at, encode(q.payload) AS payload,
    q.rowid AS row, q.run_id, coalesce(c.run_seq, 0) AS run_seq, q.page, q.correlation_id, q.last_seen_at
FROM core.quarantine AS q LEFT JOIN core.run_counts AS c ON c.run_id = q.run_id
WHERE q.resource = 'media' AND q.position IS NOT NULL
ORDER BY landed

-- name: digests
-- Writes core.quarantine: the hash by which records that stay are recognized.
UPDATE core.quarantine SET digest = r.digest, reason = r.reason FROM unreadable AS r WHERE quarantine.rowid = r.row

-- name: outdated
-- The records whose item was seen later. Writes nothing.
SELECT r.row
FROM readable AS r
JOIN core.quarantine AS q ON q.rowid = r.row
JOIN core.media AS m ON m.account_id = q.account_id AND m.surface = q.surface AND m.media_id = r.media_id
WHERE m.last_seen_at >= q.seen_at

-- name: released
-- Writes core.quarantine.
DELETE FROM core.quarantine WHERE rowid IN (SELECT row FROM readable)
