-- name: places
-- Where the bytes of items and of their versions are in the raw store. `is_version`: the content there is compared with
-- that of another version of the item.
CREATE OR REPLACE TEMP TABLE places AS
SELECT landed, position, bool_or(is_item) AS is_item, bool_or(is_version) AS is_version
FROM (
    SELECT
        raw_landed AS landed, raw_position AS position, true AS is_item,
        (account_id, surface, media_id) IN (SELECT (account_id, surface, media_id) FROM core.media_versions)
            AS is_version
    FROM core.media
    UNION ALL
    SELECT raw_landed, raw_position, false, true FROM core.media_versions
)
GROUP BY landed, position

-- name: found
-- The rows of a part of the raw store that are of an item or a version. Writes nothing.
SELECT r.*, p.is_item, p.is_version
FROM part AS r
JOIN places AS p ON p.landed = r.landed AND p.position = r.position
ORDER BY r.landed, r.position

-- name: quarantined
-- The items in quarantine, in the order in which they were received. Writes nothing.
SELECT
    q.rowid AS row, q.account_id, q.surface, q.page, q.run_id, coalesce(c.run_seq, 0) AS run_seq, q.correlation_id,
    q.seen_at, q.last_seen_at, encode(q.payload) AS payload
FROM core.quarantine AS q LEFT JOIN core.run_counts AS c ON c.run_id = q.run_id
WHERE q.resource = 'media' AND q.position IS NOT NULL
ORDER BY q.seen_at, q.page, q.position

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
