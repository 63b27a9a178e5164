-- Stores the rejected records of the batch: one row for each, however often it is received. Writes core.quarantine.
--
-- Reads rejected_records, also whole pages, and unidentified_items, which could not become rows, with the reason.
--
-- Records are the same if their account, surface, reason and content are equal; the position on the page does not
-- matter. The content does not include counts and the queries of signed URLs, because with these an item without an id
-- would be a new record in every sync. A record that is in quarantine already only gets a later `last_seen_at`; payload,
-- page, position, run and correlation id are those of the first time.
CREATE OR REPLACE TEMP TABLE quarantined AS
WITH received AS (
    SELECT r.reason, r.resource, r.seq, r.position, r.payload FROM rejected_records AS r
    UNION ALL
    SELECT i.reason, '{resource}', s.seq, s.position, i.payload
    FROM (SELECT order_key, seq, order_key & ((1 << {position_bits}) - 1) AS position FROM sightings) AS s
    JOIN unidentified_items AS i USING (order_key)
    WHERE (s.seq, s.position) NOT IN (SELECT (seq, position) FROM rejected_records WHERE position IS NOT NULL)
),
identified AS (
    SELECT
        r.reason, r.resource, p.account_id, p.surface, p.page, r.position, r.payload, p.run_id, p.correlation_id,
        p.received_at AS seen_at, r.seq, {digest} AS digest
    FROM received AS r JOIN pages AS p USING (seq)
)
SELECT
    * EXCLUDE (seq),
    max(seen_at) OVER (PARTITION BY reason, resource, account_id, surface, digest) AS last_seen_at
FROM identified
QUALIFY row_number() OVER (PARTITION BY reason, resource, account_id, surface, digest ORDER BY seq, position) = 1;

UPDATE core.quarantine AS q SET last_seen_at = greatest(q.last_seen_at, r.last_seen_at)
FROM quarantined AS r
WHERE r.reason = q.reason AND r.resource = q.resource AND r.account_id = q.account_id AND r.surface = q.surface
  AND r.digest = q.digest;

DELETE FROM quarantined AS r USING core.quarantine AS q
WHERE r.reason = q.reason AND r.resource = q.resource AND r.account_id = q.account_id AND r.surface = q.surface
  AND r.digest = q.digest;

INSERT INTO core.quarantine BY NAME FROM quarantined;

INSERT INTO run_numbers SELECT run_id, 'quarantined', count(*) FROM quarantined GROUP BY run_id;
