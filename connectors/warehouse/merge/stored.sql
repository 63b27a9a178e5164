-- Reads the stored items of all partitions in the batch, with narrow columns only. Writes no table.
CREATE OR REPLACE TEMP TABLE stored_items AS
SELECT
    rowid AS stored, account_id, surface, media_id, payload_hash, first_seen_at, removed_at
FROM {items} AS m
SEMI JOIN (
    SELECT DISTINCT account_id, surface FROM pages WHERE resource = '{resource}'
) AS s USING (account_id, surface);

-- Each time that an item was listed, `sightings`. First those whose bytes are stored, which need not be decoded.
CREATE OR REPLACE TEMP TABLE sightings AS
SELECT
    i.order_key, i.seq, i.scan_id, i.received_at, i.account_id, i.surface, s.media_id, s.stored, true AS is_known
FROM arrived_items AS i JOIN stored_items AS s USING (account_id, surface, payload_hash);

SELECT order_key FROM sightings;
