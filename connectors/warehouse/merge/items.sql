-- name: known
-- The listings of items whose bytes are stored, so that they need not be read. `turn` counts the listings of an item.
-- With a function around it, because DuckDB would look for hashes beyond 63 bits in the Arrow table, which fails.
-- If the accounts are few, only the ids are read of others. Writes nothing.
SELECT
    a.n, a.run_seq, m.rowid AS row, m.missed_at IS NOT NULL AS is_missed, m.removed_at IS NOT NULL AS is_removed,
    'stored' AS found, false AS is_content, false AS is_same_id, NULL::VARCHAR AS media_id,
    row_number() OVER (PARTITION BY m.rowid ORDER BY a.n) AS turn
FROM arrived AS a
JOIN (SELECT *, rowid FROM core.media WHERE $few IS NULL OR account_id IN $few) AS m
    ON m.account_id = a.account_id AND m.surface = a.surface AND m.payload_hash = coalesce(a.payload_hash, 0)

-- name: fields
-- The registry of fields. Writes nothing.
SELECT resource, path, kinds, is_count, first_seen_at, column_name, ordinal, last_type_change_at
FROM core.fields
ORDER BY resource, ordinal, path

-- name: columns
-- The columns of core.media, and their types. Writes nothing.
SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'core' AND table_name = 'media'

-- name: registered
-- Writes core.fields.
MERGE INTO core.fields AS f
USING registered AS r
ON f.resource = r.resource AND f.path = r.path
WHEN MATCHED THEN UPDATE BY NAME
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: listed
-- All listings, also those that are known: what they found, and what is stored of the item. `counts` are those that
-- changed. Writes nothing.
--
-- `is_same_id`: the scan has listed this id before, with another time or permalink.
SELECT
    * EXCLUDE (account_id, surface),
    row_number() OVER (
        PARTITION BY row, if(row IS NULL, (account_id, surface, media_id), NULL) ORDER BY n
    ) AS turn
FROM (
    SELECT * EXCLUDE (turn) FROM known
    UNION ALL BY NAME
    SELECT
        b.n, b.media_id, a.account_id, a.surface, a.run_seq,
        m.rowid AS row, m.present_seq, m.first_seen_at, m.first_run_seq, m.content_changed_at,
        m.missed_at IS NOT NULL AS is_missed, m.removed_at IS NOT NULL AS is_removed,
        list_filter([{changed_counts}], lambda each: each IS NOT NULL) AS counts,
        coalesce(m.content_hash <> b.content_hash, false) AS is_content,
        CASE WHEN m.rowid IS NULL THEN 'added' WHEN is_content OR len(counts) > 0 THEN 'changed' ELSE 'same' END
            AS found,
        coalesce(m.seen_seq >= a.began_seq, false)
            AND (m.published_at IS DISTINCT FROM b.published_at OR m.permalink IS DISTINCT FROM b.permalink)
            AS is_same_id
    FROM batch AS b
    JOIN arrived AS a ON a.n = b.n
    LEFT JOIN (SELECT *, rowid FROM core.media WHERE $few IS NULL OR account_id IN $few) AS m
        ON m.account_id = a.account_id AND m.surface = a.surface AND m.media_id = b.media_id
)

-- name: superseded
-- The stored rows of items whose content changed, and the items as they are listed now. Writes nothing. No column of a
-- field has such a name: with one that had, these would not be whole rows.
SELECT l.n, "a row" AS before, "an item" AS after
FROM listed AS l
JOIN batch AS "an item" ON "an item".n = l.n
JOIN core.media AS "a row" ON "a row".rowid = l.row
WHERE l.is_content

-- name: versions
-- A version begins with its content; its place in the raw store is that of the last change, of a count too. Writes
-- core.media_versions.
INSERT INTO core.media_versions BY NAME
SELECT
    m.account_id, m.surface, m.media_id, m.content_changed_at AS valid_from, a.received_at AS valid_to, v.content,
    v.changed, m.raw_landed, m.raw_position, a.run_seq
FROM versions AS v
JOIN listed AS l ON l.n = v.n
JOIN arrived AS a ON a.n = v.n
JOIN core.media AS m ON m.rowid = l.row
ORDER BY v.n

-- name: same_id
-- Writes core.scan_findings: ids that a scan listed again, with another time or permalink.
INSERT INTO core.scan_findings BY NAME
SELECT p.resource, p.account_id, p.surface, p.scan_id, 'same_id' AS finding, l.media_id AS record_id, a.seq
FROM listed AS l
JOIN arrived AS a ON a.n = l.n
JOIN pages AS p ON p.seq = a.seq
WHERE l.is_same_id

-- name: counts
-- Writes core.media_counts: each count that differs from the one before; NULL if it is no longer sent.
INSERT INTO core.media_counts
SELECT a.account_id, a.surface, l.media_id, l.one.metric, l.one.value, a.received_at, a.run_seq
FROM (SELECT n, media_id, unnest(counts) AS one FROM listed) AS l JOIN arrived AS a ON a.n = l.n

-- name: returned_events
-- Writes core.events: items that were removed and are listed again.
INSERT INTO core.events BY NAME
SELECT m.account_id, m.surface, m.media_id, 'returned' AS event, a.received_at AS changed_at, a.run_seq
FROM listed AS l
JOIN arrived AS a ON a.n = l.n
JOIN core.media AS m ON m.rowid = l.row
WHERE l.is_removed
ORDER BY a.n
RETURNING run_seq, event

-- name: differing
-- The columns that differ in items that did not change: addresses, and what the mapping ignores. Writes nothing.
SELECT list_filter([{changed_columns}], lambda each: each IS NOT NULL)
FROM listed AS l JOIN batch AS b ON b.n = l.n JOIN core.media AS m ON m.rowid = l.row
WHERE l.found = 'same'

-- name: addresses
-- Updates the items that did not change where they are, so that the rows of an account stay together.
UPDATE core.media SET {assignments} payload_hash = a.payload_hash
FROM listed AS l JOIN batch AS b ON b.n = l.n JOIN arrived AS a ON a.n = l.n
WHERE media.rowid = l.row AND l.found = 'same'

-- name: replaced
-- Deletes the rows of items that changed: an UPDATE would rewrite all texts of the rows near them.
DELETE FROM core.media WHERE rowid IN (SELECT row FROM listed WHERE found = 'changed')

-- name: items
-- Writes new items, and those that changed.
INSERT INTO core.media BY NAME
SELECT
    a.account_id, a.surface, b.* EXCLUDE (n), a.payload_hash, a.seq AS raw_landed, a.position AS raw_position,
    if(l.found = 'added', a.received_at, l.first_seen_at) AS first_seen_at,
    if(l.found = 'added', a.run_seq, l.first_run_seq) AS first_run_seq, a.received_at AS changed_at,
    if(l.found = 'added' OR l.is_content, a.received_at, l.content_changed_at) AS content_changed_at, a.run_seq, a.seq AS seen_seq,
    if(l.found = 'added' OR l.is_removed, a.seq, l.present_seq) AS present_seq, a.received_at AS last_seen_at
FROM listed AS l
JOIN batch AS b ON b.n = l.n
JOIN arrived AS a ON a.n = l.n
WHERE l.found IN ('added', 'changed')
ORDER BY a.account_id, a.surface, b.published_at DESC

-- name: sightings
-- Updates when the items whose rows are kept were last seen. All of these columns have a fixed width, so that the
-- file does not grow. Writes core.media.
UPDATE core.media SET seen_seq = a.seq, last_seen_at = a.received_at
FROM listed AS l JOIN arrived AS a ON a.n = l.n
WHERE media.rowid = l.row AND l.found IN ('stored', 'same')

-- name: returned
-- Clears what scans missed: any sighting does. An item that was removed is present again. Writes core.media.
UPDATE core.media SET
    present_seq = if(media.removed_at IS NULL, media.present_seq, a.seq),
    run_seq = if(media.removed_at IS NULL, media.run_seq, a.run_seq),
    missed_at = NULL, confirmed_by = NULL, removed_at = NULL, removal = NULL
FROM listed AS l JOIN arrived AS a ON a.n = l.n
WHERE media.rowid = l.row AND l.is_missed AND l.found IN ('stored', 'same')
