-- name: found
-- The rows of a part of the raw store that are of an item or a version. Writes nothing.
SELECT r.*, p.is_item, p.is_version
FROM part AS r
JOIN places AS p ON p.landed = r.landed AND p.position = r.position
ORDER BY r.landed, r.position

-- name: items
-- Items and versions as they are read now. `content` is that of versions, and of items that have any. Columns of items
-- follow.
CREATE OR REPLACE TEMP TABLE items (
    landed BIGINT, position INTEGER, payload_hash UBIGINT, content_hash UBIGINT, overflow VARCHAR, content VARCHAR
)

-- name: recounted
-- The counts that differ from those of the stored rows.
CREATE OR REPLACE TEMP TABLE recounted AS
SELECT account_id, surface, media_id, one.metric, one.value, changed_at AS observed_at, run_seq
FROM (
    SELECT m.account_id, m.surface, m.media_id, m.changed_at, m.run_seq, unnest([{changed_counts}]) AS one
    FROM core.media AS m JOIN items AS b ON b.landed = m.raw_landed AND b.position = m.raw_position
)
WHERE one IS NOT NULL

-- name: counts
-- Writes core.media_counts.
DELETE FROM core.media_counts AS c USING recounted AS r
WHERE c.account_id = r.account_id AND c.surface = r.surface AND c.media_id = r.media_id AND c.metric = r.metric
  AND c.observed_at = r.observed_at;
INSERT INTO core.media_counts BY NAME FROM recounted

-- name: new_items
-- Writes core.media: what items say as it is read now, and what became of them as it was.
INSERT INTO core.media BY NAME
SELECT
    m.account_id, m.surface, m.media_id, m.raw_landed, m.raw_position, m.first_seen_at, m.first_run_seq, m.changed_at,
    m.content_changed_at, m.run_seq, m.seen_seq, m.present_seq, m.last_seen_at, m.missed_at, m.confirmed_by,
    m.removed_at, m.removal, i.* EXCLUDE (landed, position, content)
FROM core.media AS m JOIN items AS i ON i.landed = m.raw_landed AND i.position = m.raw_position
ORDER BY m.account_id, m.surface, i.published_at DESC

-- name: versions
-- The versions with the content that they have now, and the names and paths of what differs in the next version.
-- Writes core.media_versions.
CREATE OR REPLACE TEMP TABLE rewritten_versions AS
WITH told AS (
    SELECT * EXCLUDE (content, changed), true AS is_version FROM core.media_versions
    UNION ALL BY NAME
    SELECT account_id, surface, media_id, raw_landed, raw_position, false AS is_version FROM core.media
),
compared AS (
    SELECT
        t.*, i.content,
        json_transform(i.content, '"MAP(VARCHAR, JSON)"') AS members,
        lead(members) OVER (
            PARTITION BY t.account_id, t.surface, t.media_id ORDER BY t.raw_landed, t.raw_position
        ) AS next
    FROM told AS t
    JOIN items AS i ON i.landed = t.raw_landed AND i.position = t.raw_position
    WHERE i.content IS NOT NULL
)
SELECT
    * EXCLUDE (is_version, members, next),
    list_sort(list_filter(
        list_distinct(map_keys(members) || map_keys(next)), lambda one: members[one] IS DISTINCT FROM next[one]
    )) AS changed
FROM compared
WHERE is_version;
DELETE FROM core.media_versions;
INSERT INTO core.media_versions BY NAME FROM rewritten_versions;
-- Its memory is needed by what follows.
DROP TABLE temp.items

-- name: order
-- The next scan of each feed in order is a full one. Writes core.closed_scans.
UPDATE core.closed_scans SET
    item_order = NULL, recent_at = NULL, covered_from = NULL, order_proofs = greatest(order_proofs, 1)
WHERE resource = 'media'

-- name: in_force
-- Writes core.warehouse.
UPDATE core.warehouse SET mapping = ?, content_rule = ?

-- name: quarantined
-- The items in quarantine. Writes nothing.
SELECT rowid, encode(payload) FROM core.quarantine WHERE resource = 'media' AND position IS NOT NULL

-- name: outdated
-- Deletes the records whose item was seen later. Writes core.quarantine.
DELETE FROM core.quarantine AS q
USING readable AS r, core.media AS m
WHERE q.rowid = r.row AND m.account_id = q.account_id AND m.surface = q.surface AND m.media_id = r.media_id
  AND m.last_seen_at >= q.seen_at

-- name: released
-- The other records as pages, in the order in which they were received, first and last. Writes nothing.
SELECT
    account_id, surface, run_id, page, unnest(list_distinct([seen_at, last_seen_at])) AS received_at, correlation_id,
    encode('{"items":[' || payload || '],"next_cursor":null}')
FROM core.quarantine
WHERE rowid IN (SELECT row FROM readable)
ORDER BY received_at, seen_at, page, position
