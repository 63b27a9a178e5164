-- Adds the hashes of the rows of a child table.
INSERT INTO child_hashes
SELECT i.order_key, i.account_id, i.surface, i.media_id, {content}, {counts}
FROM {decoded} AS r JOIN compared AS i ON i.order_key = r._order_key
UNION ALL
SELECT -1, r.account_id, r.surface, r.media_id, {content}, {counts}
FROM core.{table} AS r SEMI JOIN (FROM compared WHERE stored IS NOT NULL) USING (account_id, surface, media_id);
