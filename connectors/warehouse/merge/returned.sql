-- Finds removed items that were listed again, and records the removal that their rows lose. Writes core.events; returns
-- how many events.
CREATE OR REPLACE TEMP TABLE returned AS
SELECT
    r.account_id, r.surface, r.media_id, any_value(s.stored) AS stored,
    arg_min(r.received_at, r.order_key) AS returned_at, min(r.seq) AS returned_seq
FROM sightings AS r
JOIN (FROM stored_items WHERE removed_at IS NOT NULL) AS s USING (account_id, surface, media_id)
GROUP BY r.account_id, r.surface, r.media_id;

INSERT INTO core.events BY NAME
SELECT
    '{resource}' AS resource, m.account_id, m.surface, m.media_id, unnest([m.run_seq, p.run_seq]) AS run_seq,
    unnest([m.removed_at, r.returned_at]) AS changed_at, unnest([m.removal, 'returned']) AS event
FROM returned AS r JOIN {items} AS m ON m.rowid = r.stored JOIN pages AS p ON p.seq = r.returned_seq;
