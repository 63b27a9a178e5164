-- Replaces the children of changed items. Writes a child table.
DELETE FROM core.{table} AS c USING changed AS i
WHERE i.stored IS NOT NULL AND c.account_id = i.account_id AND c.surface = i.surface AND c.media_id = i.media_id;

INSERT INTO core.{table} BY NAME
SELECT i.account_id, i.surface, i.media_id, i.run_seq, c.* EXCLUDE (_order_key)
FROM changed AS i JOIN {decoded} AS c ON c._order_key = i.last_order_key
ORDER BY i.account_id, i.surface, i.media_id, c.position;
