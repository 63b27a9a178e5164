-- Replaces the children of respelled items in a table that is not compared: there may be more or fewer of them. Writes a
-- child table.
DELETE FROM core.{table} AS c USING respelled AS r
WHERE c.account_id = r.account_id AND c.surface = r.surface AND c.media_id = r.media_id;

INSERT INTO core.{table} BY NAME
SELECT r.account_id, r.surface, r.media_id, m.run_seq, c.* EXCLUDE (_order_key)
FROM respelled AS r
JOIN {items} AS m ON m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id
JOIN {decoded} AS c ON c._order_key = r.order_key
ORDER BY r.account_id, r.surface, r.media_id, c.position;
