-- Identifies the items whose bytes are not stored. Writes no table.
--
-- Reads media_cells: the decoded items.

DELETE FROM sightings WHERE order_key IN (SELECT order_key FROM media_cells);

-- `media_id` is NULL if an item has no valid id, or could not be decoded.
INSERT INTO sightings BY NAME
SELECT
    i.order_key, i.seq, i.scan_id, i.received_at, i.account_id, i.surface, c.media_id, s.stored, false AS is_known
FROM (FROM arrived_items ANTI JOIN sightings USING (order_key)) AS i
LEFT JOIN (SELECT order_key, media_id FROM media_cells) AS c USING (order_key)
LEFT JOIN stored_items AS s USING (account_id, surface, media_id);

-- Items that may be unchanged: stored ones, and those observed more than once. The others are new.
CREATE OR REPLACE TEMP TABLE compared AS
WITH decoded AS (FROM sightings WHERE NOT is_known AND media_id IS NOT NULL),
again AS (
    SELECT account_id, surface, media_id FROM decoded GROUP BY account_id, surface, media_id HAVING count(*) > 1
)
SELECT order_key, account_id, surface, media_id, stored FROM decoded
WHERE stored IS NOT NULL OR (account_id, surface, media_id) IN (FROM again);

-- The order keys of items that are unchanged.
CREATE OR REPLACE TEMP TABLE unchanged (order_key BIGINT);

SELECT
    (SELECT count(*) FROM compared) AS compared,
    count(media_id) - (SELECT count(*) FROM compared) AS new,
    count(*) - count(media_id) AS unidentified
FROM sightings WHERE NOT is_known;
