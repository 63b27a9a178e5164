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

-- name: kept
-- The rows of a part that are of an item or a version, or were not received before a time, and the last one: its landing
-- shows that later parts have been replaced. Writes nothing.
SELECT r.*
FROM part AS r
LEFT JOIN places AS p ON p.landed = r.landed AND p.position = r.position
WHERE p.landed IS NOT NULL OR coalesce(r.seen_at >= ?::TIMESTAMPTZ, true)
    OR (r.landed, r.position) = (SELECT max((landed, position)) FROM part)
ORDER BY r.landed, r.position
