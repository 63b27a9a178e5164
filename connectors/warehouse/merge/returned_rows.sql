-- Rewrites the rows of returned items that did not change. Writes {items}.
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

INSERT INTO run_numbers
SELECT p.run_id, 'returned', count(*) FROM returned AS r JOIN pages AS p ON p.seq = r.returned_seq GROUP BY p.run_id;
