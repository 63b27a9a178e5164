-- name: kept
-- The rows of a part that are of an item or a version, or were received since a time, and the last one: its landing
-- shows that later parts have been replaced. Writes nothing.
SELECT r.*
FROM part AS r
LEFT JOIN places AS p ON p.landed = r.landed AND p.position = r.position
WHERE p.landed IS NOT NULL OR r.seen_at >= ? OR (r.landed, r.position) = (SELECT max((landed, position)) FROM part)
ORDER BY r.landed, r.position
