-- Marks the missed items that are removed or expired. Writes {items}.

-- Rows are deleted and inserted, because an UPDATE would rewrite whole row groups of its columns.
CREATE OR REPLACE TEMP TABLE removed_rows AS
SELECT m.* REPLACE (x.missing_since AS removed_at, x.removal AS removal, x.last_seen_at AS written_at, u.seq AS run_seq)
FROM {items} AS m
JOIN (FROM missed_items WHERE removal IS NOT NULL) AS x USING (account_id, surface, media_id)
LEFT JOIN core.runs AS u ON u.run_id = x.run_id;

DELETE FROM {items} AS m USING removed_rows AS r
WHERE m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id;

INSERT INTO {items} BY NAME FROM removed_rows;

INSERT INTO run_numbers
SELECT run_id, removal, count(*) FROM missed_items WHERE removal IS NOT NULL GROUP BY run_id, removal;
