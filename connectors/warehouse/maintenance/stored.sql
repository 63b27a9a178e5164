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
-- The rows of a part of the raw store that are of an item or a version, by number. Writes nothing.
SELECT r.n, p.is_item, p.is_version
FROM part AS r
JOIN places AS p ON p.landed = r.landed AND p.position = r.position
ORDER BY r.landed, r.position
