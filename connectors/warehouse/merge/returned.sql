-- Finds removed items that were listed again, and rewrites their rows, if they did not change. Writes {items}.
CREATE OR REPLACE TEMP TABLE returned AS
SELECT
    r.account_id, r.surface, r.media_id, arg_min(r.received_at, r.order_key) AS returned_at, min(r.seq) AS returned_seq
FROM sightings AS r
SEMI JOIN (FROM stored_items WHERE removed_at IS NOT NULL) AS s USING (account_id, surface, media_id)
GROUP BY r.account_id, r.surface, r.media_id;

CREATE OR REPLACE TEMP TABLE returned_rows AS
SELECT m.* REPLACE (
    r.returned_at AS written_at, r.returned_seq AS written_seq, NULL::TIMESTAMPTZ AS removed_at,
    NULL::VARCHAR AS removal, p.run_seq AS run_seq
)
FROM {items} AS m JOIN returned AS r USING (account_id, surface, media_id) JOIN pages AS p ON p.seq = r.returned_seq
WHERE m.removed_at IS NOT NULL;

DELETE FROM {items} AS m USING returned AS r
WHERE m.removed_at IS NOT NULL
  AND m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id;

INSERT INTO {items} BY NAME FROM returned_rows;

INSERT INTO events
SELECT p.run_id, 'returned', count(*) FROM returned AS r JOIN pages AS p ON p.seq = r.returned_seq GROUP BY p.run_id;
