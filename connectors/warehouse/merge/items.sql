-- name: known
-- The items of the batch whose bytes are stored, so that they need not be read. Writes nothing.
SELECT a.n, m.rowid AS row, m.missed_at IS NOT NULL AS is_missed, m.removed_at IS NOT NULL AS is_removed
FROM arrived AS a
JOIN core.media AS m
    ON m.account_id = a.account_id AND m.surface = a.surface AND m.payload_hash = a.payload_hash
ORDER BY a.n

-- name: fields
-- The registry of fields. Writes nothing.
SELECT resource, path, kinds, is_count, first_seen_at, column_name, ordinal, last_type_change_at
FROM core.fields
ORDER BY resource, ordinal

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
-- The other items, each time that they were listed, and what became of them; their values stay in `batch`. Writes nothing.
--
-- `item` is the number of an item's first listing in the batch, and `row` its stored row. `before` and `content_before`
-- are of the time before: the item as it was listed earlier in the batch, or as it is stored. `is_changed`: new, or its
-- content or a count changed; its bytes go to the raw store. `is_same_id`: the scan has listed this id before, with
-- another time or permalink. `is_last`: as it is now.
CREATE OR REPLACE TEMP TABLE listed AS
WITH listings AS (
    SELECT
        a.*, b.media_id, b.content_hash, b.published_at, b.permalink,
        {{{counts}}} AS counts, first_value(b.n) OVER item AS item, lead(b.n) OVER item IS NULL AS is_last,
        lag(struct_pack(
            seq := a.seq, content_hash := b.content_hash, published_at := b.published_at, permalink := b.permalink,
            counts := counts
        )) OVER item AS earlier
    FROM batch AS b
    JOIN arrived AS a ON a.n = b.n
    WINDOW item AS (PARTITION BY a.account_id, a.surface, b.media_id ORDER BY b.n)
)
SELECT
    i.* EXCLUDE (published_at, permalink, earlier),
    m.rowid AS row, m.present_seq, m.first_seen_at, m.first_run_seq, m.content_changed_at,
    coalesce(m.missed_at IS NOT NULL, false) AS is_missed, coalesce(m.removed_at IS NOT NULL, false) AS is_removed,
    if(i.earlier IS NULL, {{{stored_counts}}}, i.earlier.counts) AS before,
    if(i.earlier IS NULL, m.content_hash, i.earlier.content_hash) AS content_before,
    coalesce(
        if(i.earlier IS NULL, m.seen_seq, i.earlier.seq) >= i.began_seq
        AND (if(i.earlier IS NULL, m.published_at, i.earlier.published_at) IS DISTINCT FROM i.published_at
            OR if(i.earlier IS NULL, m.permalink, i.earlier.permalink) IS DISTINCT FROM i.permalink),
        false
    ) AS is_same_id,
    m.rowid IS NULL AND i.earlier IS NULL AS is_new,
    i.content_hash IS DISTINCT FROM content_before AS is_content,
    is_content OR before IS DISTINCT FROM counts AS is_changed
FROM listings AS i
LEFT JOIN core.media AS m ON m.account_id = i.account_id AND m.surface = i.surface AND m.media_id = i.media_id

-- name: flags
-- What the merge decides by, one row for each time that an item was listed; `row` is -1 if none is stored. Writes nothing.
SELECT n, coalesce(row, -1) AS row, is_missed, is_removed, media_id, is_new, is_content, is_changed, is_same_id
FROM listed
ORDER BY n

-- name: superseded
-- The items whose content changed: as stored, and each time that they were listed. Writes nothing.
--
-- A version begins with its content. Its place in the raw store is that of the last change, of a count too.
SELECT
    * REPLACE (
        last_value(raw_landed IGNORE NULLS) OVER item AS raw_landed,
        last_value(raw_position IGNORE NULLS) OVER item AS raw_position
    ),
    last_value(if(begins, received_at, NULL) IGNORE NULLS) OVER item AS valid_from
FROM (
    SELECT *, -1 AS n, content_changed_at AS received_at, true AS begins, false AS is_content
    FROM core.media
    WHERE rowid IN (SELECT row FROM listed WHERE is_content)
    UNION ALL BY NAME
    SELECT
        b.*, l.account_id, l.surface, l.received_at, l.run_seq, if(l.is_changed, l.seq, NULL) AS raw_landed,
        if(l.is_changed, l.position, NULL) AS raw_position, l.is_content AS begins,
        l.is_content AND NOT l.is_new AS is_content
    FROM listed AS l
    JOIN batch AS b ON b.n = l.n
    WHERE l.item IN (SELECT item FROM listed WHERE is_content AND NOT is_new)
)
WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY n)
ORDER BY account_id, surface, media_id, n

-- name: versions
-- Writes core.media_versions.
INSERT INTO core.media_versions BY NAME FROM versions

-- name: counts
-- Writes core.media_counts: each count that differs from the one before; NULL if it is no longer sent.
INSERT INTO core.media_counts
SELECT account_id, surface, media_id, one.metric, one.value, received_at, run_seq
FROM (
    SELECT account_id, surface, media_id, received_at, run_seq, unnest([{metrics}]) AS one
    FROM listed
    WHERE is_changed
)
WHERE one IS NOT NULL

-- name: returned_events
-- Writes core.events: items that were removed and are listed again.
INSERT INTO core.events BY NAME
SELECT m.account_id, m.surface, m.media_id, 'returned' AS event, a.received_at AS changed_at, a.run_seq
FROM sighted AS s
JOIN arrived AS a ON a.n = s.first
JOIN core.media AS m ON m.rowid = s.row
WHERE s.is_removed
ORDER BY a.n

-- name: differing
-- The columns that differ in items that did not change: addresses, and what the mapping ignores. Writes nothing.
SELECT list_filter([{differing}], lambda each: each IS NOT NULL)
FROM sighted AS s JOIN batch AS b ON b.n = s.last JOIN core.media AS m ON m.rowid = s.row
WHERE NOT s.is_changed

-- name: addresses
-- Updates the items that did not change where they are, so that the rows of an account stay together.
UPDATE core.media SET {assignments} payload_hash = a.payload_hash
FROM sighted AS s JOIN batch AS b ON b.n = s.last JOIN arrived AS a ON a.n = s.last
WHERE media.rowid = s.row AND NOT s.is_changed

-- name: replaced
-- Deletes the rows of items that changed: an UPDATE would rewrite all texts of the rows near them.
DELETE FROM core.media WHERE rowid IN (SELECT row FROM sighted WHERE is_changed)

-- name: items
-- Writes new items, and those that changed, as they were listed last. `changed` and `content` are the listings with the
-- last change, and the last one of content.
INSERT INTO core.media BY NAME
WITH told AS (
    SELECT item, max(n) FILTER (is_changed) AS changed, max(n) FILTER (is_content) AS content
    FROM listed
    GROUP BY item
)
SELECT
    l.account_id, l.surface, b.* EXCLUDE (n), l.payload_hash, changed.seq AS raw_landed,
    changed.position AS raw_position,
    if(first.row IS NULL, first.received_at, first.first_seen_at) AS first_seen_at,
    if(first.row IS NULL, first.run_seq, first.first_run_seq) AS first_run_seq,
    changed.received_at AS changed_at, coalesce(content.received_at, l.content_changed_at) AS content_changed_at,
    changed.run_seq, l.seq AS seen_seq,
    if(first.row IS NULL OR first.is_removed, first.seq, first.present_seq) AS present_seq,
    l.received_at AS last_seen_at
FROM told AS t
JOIN listed AS l ON l.item = t.item AND l.is_last
JOIN batch AS b ON b.n = l.n
JOIN listed AS first ON first.n = t.item
JOIN listed AS changed ON changed.n = t.changed
LEFT JOIN listed AS content ON content.n = t.content
ORDER BY l.account_id, l.surface, b.published_at DESC

-- name: sightings
-- Updates when the items whose rows are kept were last seen. All of these columns have a fixed width, so that the
-- file does not grow. Writes core.media.
UPDATE core.media SET seen_seq = a.seq, last_seen_at = a.received_at
FROM sighted AS s JOIN arrived AS a ON a.n = s.last
WHERE media.rowid = s.row AND NOT s.is_changed

-- name: returned
-- Clears what scans missed: any sighting does. An item that was removed is present again. Writes core.media.
UPDATE core.media SET
    present_seq = if(media.removed_at IS NULL, media.present_seq, a.seq),
    missed_at = NULL, confirmed_by = NULL, removed_at = NULL, removal = NULL
FROM sighted AS s JOIN arrived AS a ON a.n = s.first
WHERE media.rowid = s.row AND s.is_missed AND NOT s.is_changed
